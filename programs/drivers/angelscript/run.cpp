// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs main() of a script: run FILE.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "../../add_on/scriptarray/scriptarray.h"
#include "../../add_on/scriptdictionary/scriptdictionary.h"
#include "../../add_on/scriptmath/scriptmath.h"
#include "../../add_on/scriptstdstring/scriptstdstring.h"
#include "angelscript.h"

static void print(const std::string &text) { std::puts(text.c_str()); }

static void message(const asSMessageInfo *info, void *) {
  std::fprintf(stderr, "%s:%d:%d: %s\n", info->section, info->row, info->col, info->message);
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  std::ifstream file(argv[1]);
  const std::string code{std::istreambuf_iterator<char>(file), {}};
  asIScriptEngine *engine = asCreateScriptEngine();
  engine->SetMessageCallback(asFUNCTION(message), nullptr, asCALL_CDECL);
  RegisterStdString(engine);
  RegisterScriptArray(engine, true);
  RegisterStdStringUtils(engine);
  RegisterScriptDictionary(engine);
  RegisterScriptMath(engine);
  engine->RegisterGlobalFunction("void print(const string &in)", asFUNCTION(print), asCALL_CDECL);
  asIScriptModule *module = engine->GetModule("script", asGM_ALWAYS_CREATE);
  module->AddScriptSection("script", code.c_str(), code.size());
  if (module->Build() < 0)
    return 1;
  asIScriptContext *context = engine->CreateContext();
  context->Prepare(module->GetFunctionByDecl("void main()"));
  const int ended = context->Execute();
  if (ended == asEXECUTION_EXCEPTION)
    std::fprintf(stderr, "%s\n", context->GetExceptionString());
  context->Release();
  engine->ShutDownAndRelease();
  return ended == asEXECUTION_FINISHED ? 0 : 1;
}
