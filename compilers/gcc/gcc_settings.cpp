// SPDX-License-Identifier: GPL-3.0-or-later
// A plugin for GCC 12: for each function a model chooses among optimization settings (README.md).
//
// This file is compiled with GCC's headers, so it and the plugin made from it are under the GNU
// General Public License, version 3 or later. It uses MLBridge through libmlbridge-c.so alone.
#include <mlbridge/c/mlbridge.h>

#define INCLUDE_STRING
#define INCLUDE_VECTOR
#include <gcc-plugin.h>
#include <plugin-version.h>

// Each needs those before it.
#include <tree.h>

#include <gimple.h>

#include <cfgloop.h>
#include <cgraph.h>
#include <diagnostic.h>
#include <gimple-iterator.h>
#include <opts.h>
#include <target.h>
#include <toplev.h>

int plugin_is_GPL_compatible;

namespace {

/// What the model chooses from, by its number.
struct Setting {
  const char *name;
  std::vector<const char *> options; // added to those of the command line
};
const Setting Settings[] = {
    {"stock", {}},
    {"size", {"-Os"}},
    {"speed", {"-O3"}},
    {"inline-less", {"-fno-inline-small-functions", "-fno-inline-functions-called-once"}},
    {"inline-more", {"-finline-functions", "--param=max-inline-insns-auto=60"}},
    {"unroll", {"-funroll-loops"}},
    {"keep-loops",
     {"-fno-tree-vectorize", "-fno-peel-loops", "--param=max-completely-peel-times=1"}},
};

/// What is told of a function, in this order.
enum Feature {
  Statements,
  Assignments,
  Calls,
  IndirectCalls,
  BuiltinCalls,
  Conditions,
  Switches,
  Loads,
  Stores,
  FloatOperations,
  Multiplications,
  Divisions,
  Blocks,
  Edges,
  Loops,
  LoopDepth,
  StatementsInLoops,
  CallsInLoops,
  Arguments,
  Locals,
  Callers,
  IsPublic,
  IsDeclaredInline,
  Level,
  IsForSize,
  FeatureCount
};

struct Options {
  std::string model, deadline, levels = "O2,O3,Os";
  bool fails = false;
};
Options Told;

/// One warning, which -Werror lets pass, or the error that on-failure=fail asks for.
void failed(const std::string &why) {
  if (Told.fails) {
    error_at(UNKNOWN_LOCATION, "gcc-settings: %s", why.c_str());
    return;
  }
  const bool asError = global_dc->warning_as_error_requested;
  global_dc->warning_as_error_requested = false;
  warning_at(UNKNOWN_LOCATION, 0, "gcc-settings: %s; the settings stay GCC%'s own", why.c_str());
  global_dc->warning_as_error_requested = asError;
}

/// "O2", as the command line names it.
std::string level() {
  if (optimize_debug)
    return "Og";
  if (optimize_size)
    return optimize_size > 1 ? "Oz" : "Os";
  return "O" + std::to_string(optimize > 3 ? 3 : optimize);
}

bool areLevels(const std::string &list) {
  std::string its;
  for (const char next : list + ",")
    if (next != ',')
      its += next;
    else if (its != "O0" && its != "O1" && its != "O2" && its != "O3" && its != "Os" &&
             its != "Oz" && its != "Og")
      return false;
    else
      its.clear();
  return true;
}

bool asksAt(const std::string &here) {
  return ("," + Told.levels + ",").find("," + here + ",") != std::string::npos;
}

void count(const gimple *statement, bool inLoop, float *features) {
  if (is_gimple_debug(statement) || gimple_clobber_p(statement) ||
      gimple_code(statement) == GIMPLE_LABEL || gimple_code(statement) == GIMPLE_NOP ||
      gimple_code(statement) == GIMPLE_PREDICT)
    return;
  ++features[Statements];
  features[StatementsInLoops] += inLoop;
  features[Loads] +=
      gimple_assign_load_p(statement) && !is_gimple_reg(gimple_assign_rhs1(statement));
  features[Stores] += gimple_store_p(statement);
  switch (gimple_code(statement)) {
  case GIMPLE_ASSIGN: {
    ++features[Assignments];
    const tree_code operation = gimple_assign_rhs_code(statement);
    features[FloatOperations] += FLOAT_TYPE_P(TREE_TYPE(gimple_assign_lhs(statement))) &&
                                 TREE_CODE_CLASS(operation) == tcc_binary;
    features[Multiplications] += operation == MULT_EXPR;
    features[Divisions] += operation == TRUNC_DIV_EXPR || operation == TRUNC_MOD_EXPR ||
                           operation == RDIV_EXPR || operation == EXACT_DIV_EXPR;
    break;
  }
  case GIMPLE_CALL:
    ++features[Calls];
    features[CallsInLoops] += inLoop;
    features[IndirectCalls] += !gimple_call_fndecl(statement) && !gimple_call_internal_p(statement);
    features[BuiltinCalls] +=
        gimple_call_internal_p(statement) || gimple_call_builtin_p(statement, BUILT_IN_NORMAL);
    break;
  case GIMPLE_COND:
    ++features[Conditions];
    break;
  case GIMPLE_SWITCH:
    ++features[Switches];
    break;
  default:
    break;
  }
}

void describe(cgraph_node *node, float *features) {
  function *body = DECL_STRUCT_FUNCTION(node->decl);
  basic_block block;
  FOR_EACH_BB_FN(block, body) {
    ++features[Blocks];
    features[Edges] += EDGE_COUNT(block->succs);
    const unsigned depth = block->loop_father ? loop_depth(block->loop_father) : 0;
    features[LoopDepth] = MAX(features[LoopDepth], depth);
    for (gimple_stmt_iterator at = gsi_start_bb(block); !gsi_end_p(at); gsi_next(&at))
      count(gsi_stmt(at), depth > 0, features);
  }
  features[Loops] = loops_for_fn(body) ? number_of_loops(body) - 1 : 0;
  for (tree argument = DECL_ARGUMENTS(node->decl); argument; argument = DECL_CHAIN(argument))
    ++features[Arguments];
  features[Locals] = vec_safe_length(body->local_decls);
  for (const cgraph_edge *call = node->callers; call; call = call->next_caller)
    ++features[Callers];
  features[IsPublic] = TREE_PUBLIC(node->decl);
  features[IsDeclaredInline] = DECL_DECLARED_INLINE_P(node->decl);
  features[Level] = optimize;
  features[IsForSize] = optimize_size > 0;
}

/// A function with options of its own keeps them.
bool isAsked(const cgraph_node *node) {
  const function *body = DECL_STRUCT_FUNCTION(node->decl);
  const tree own = DECL_FUNCTION_SPECIFIC_OPTIMIZATION(node->decl);
  return body && body->cfg && !DECL_DISREGARD_INLINE_LIMITS(node->decl) &&
         (!own || own == optimization_default_node);
}

/// As the attribute optimize("...") of C has it, for each language.
void apply(const Setting &setting, tree function) {
  std::vector<const char *> words = {"gcc-settings"};
  words.insert(words.end(), setting.options.begin(), setting.options.end());
  cl_optimization before;
  cl_optimization_save(&before, &global_options, &global_options_set);
  const tree target = build_target_option_node(&global_options, &global_options_set);
  cl_decoded_option *decoded = nullptr;
  unsigned size = 0;
  decode_cmdline_options_to_array_default_mask(words.size(), words.data(), &decoded, &size);
  decode_options(&global_options, &global_options_set, decoded, size, input_location, global_dc,
                 nullptr);
  free(decoded);
  DECL_FUNCTION_SPECIFIC_OPTIMIZATION(function) =
      build_optimization_node(&global_options, &global_options_set);
  const tree changed = build_target_option_node(&global_options, &global_options_set);
  if (changed != target && !DECL_FUNCTION_SPECIFIC_TARGET(function))
    DECL_FUNCTION_SPECIFIC_TARGET(function) = changed;
  cl_optimization_restore(&global_options, &global_options_set, &before);
  cl_target_option_restore(&global_options, &global_options_set, TREE_TARGET_OPTION(target));
}

std::string names() {
  std::string all;
  for (const Setting &setting : Settings)
    all += (all.empty() ? "" : ",") + std::string(setting.name);
  return all;
}

/// Asks for each function; what stopped it, or "".
std::string ask(const std::vector<cgraph_node *> &nodes, std::vector<int64_t> &chosen) {
  const int64_t shape[] = {FeatureCount};
  const mlbridge_tensor_spec input = {sizeof input, "features", MLBRIDGE_FLOAT32, 1,
                                      shape,        nullptr};
  const mlbridge_tensor_spec output = {sizeof output, "setting", MLBRIDGE_INT64, 0,
                                       nullptr,       nullptr};
  const mlbridge_signature signature = {sizeof signature, &input, 1, &output, 1};
  std::string uri = Told.model;
  if (!Told.deadline.empty())
    uri += "?deadline=" + Told.deadline;
  const std::string context = main_input_filename ? main_input_filename : "";
  mlbridge_open_options opening = {sizeof opening, 0, false, nullptr, nullptr, context.c_str()};
  mlbridge_model *model = mlbridge_model_open(uri.c_str(), &opening);
  std::string why;
  if (mlbridge_model_bind(model, &signature))
    why = mlbridge_model_message(model);
  else if (const char *known = mlbridge_model_metadata(model, "settings");
           known && known != names())
    why = Told.model + ": expected a model of the settings " + names() + ", got one of " + known;
  for (size_t i = 0; why.empty() && i < nodes.size(); ++i) {
    const std::string place = context + ":" + nodes[i]->asm_name();
    opening.context = place.c_str();
    mlbridge_runner *runner = mlbridge_model_new_runner_for(model, &opening);
    float features[FeatureCount] = {};
    describe(nodes[i], features);
    mlbridge_runner_set_at(runner, 0, MLBRIDGE_FLOAT32, features, FeatureCount);
    int64_t setting = 0;
    if (mlbridge_evaluate_int64(runner, &setting))
      why = mlbridge_runner_message(runner);
    else if (setting < 0 || setting >= int64_t(ARRAY_SIZE(Settings)))
      why = Told.model + ": expected a setting below " + std::to_string(ARRAY_SIZE(Settings)) +
            ", got " + std::to_string(setting);
    chosen.push_back(setting);
    mlbridge_runner_destroy(runner);
  }
  mlbridge_model_close(model);
  return why;
}

/// All functions are GIMPLE with a control flow graph then, and none is optimized.
void decide(void *, void *) {
  if (in_lto_p || seen_error() || Told.model.empty() || !asksAt(level()))
    return;
  std::vector<cgraph_node *> nodes;
  cgraph_node *node;
  FOR_EACH_FUNCTION_WITH_GIMPLE_BODY(node)
  if (isAsked(node))
    nodes.push_back(node);
  std::vector<int64_t> chosen;
  const std::string why = nodes.empty() ? "" : ask(nodes, chosen);
  if (!why.empty())
    return failed(why);
  for (size_t i = 0; i < nodes.size(); ++i)
    if (chosen[i])
      apply(Settings[chosen[i]], nodes[i]->decl);
}

bool read(const std::string &key, const std::string &value) {
  if (value.empty())
    return false;
  if (key == "model")
    Told.model = value;
  else if (key == "deadline")
    Told.deadline = value;
  else if (key == "levels" && areLevels(value))
    Told.levels = value;
  else if (key == "on-failure" && (value == "stock" || value == "fail"))
    Told.fails = value == "fail";
  else
    return false;
  return true;
}

/// Reads the options again, since GCC cuts a value by a character for each '=' in it, and takes
/// what loads the plugin from those that are written into objects (-g, -flto): without a decision
/// an object is GCC's own.
void takeOptions(const std::string &prefix) {
  unsigned kept = 0;
  for (unsigned i = 0; i < save_decoded_options_count; ++i) {
    const cl_decoded_option &option = save_decoded_options[i];
    if (option.opt_index == OPT_fplugin_arg_) {
      const std::string text = option.arg;
      const size_t equals = text.find('=');
      if (text.compare(0, prefix.size(), prefix) == 0 && equals != std::string::npos)
        read(text.substr(prefix.size(), equals - prefix.size()), text.substr(equals + 1));
    } else if (option.opt_index != OPT_fplugin_ && option.opt_index != OPT_iplugindir_) {
      save_decoded_options[kept++] = option;
    }
  }
  save_decoded_options_count = kept;
}

} // namespace

int plugin_init(plugin_name_args *told, plugin_gcc_version *version) {
  // What follows belongs to one version; a message is the same in all.
  for (int i = 0; i < told->argc; ++i)
    if (const char *value = told->argv[i].value; !read(told->argv[i].key, value ? value : ""))
      error("gcc-settings: %<-fplugin-arg-%s-%s%> with %qs: expected model=URI, deadline=TIME, "
            "levels=O2,Os or on-failure=stock|fail",
            told->base_name, told->argv[i].key, value ? value : "");
  if (!plugin_default_version_check(version, &gcc_version)) {
    failed(std::string("the plugin was built for GCC ") + gcc_version.basever + " of " +
           gcc_version.datestamp + ", and this is " + version->basever + " of " +
           version->datestamp + ": install mlbridge again");
    return 0;
  }
  takeOptions(std::string(told->base_name) + "-");
  register_callback(told->base_name, PLUGIN_ALL_IPA_PASSES_START, decide, nullptr);
  return 0;
}
