// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads, changes and writes XML.
#include <cstdio>
#include <cstring>
#include <string>

#include "tinyxml2.h"

using namespace tinyxml2;

class Counter : public XMLVisitor {
public:
  int elements = 0, attributes = 0, texts = 0, comments = 0;
  bool VisitEnter(const XMLElement &, const XMLAttribute *first) override {
    ++elements;
    for (; first; first = first->Next())
      ++attributes;
    return true;
  }
  bool Visit(const XMLText &text) override {
    texts += static_cast<int>(strlen(text.Value()));
    return true;
  }
  bool Visit(const XMLComment &) override {
    ++comments;
    return true;
  }
};

static int read(const char *path) {
  for (int n = 0; n < 20; ++n) {
    XMLDocument document(n % 2 == 0, n % 3 ? PRESERVE_WHITESPACE : COLLAPSE_WHITESPACE);
    if (document.LoadFile(path) != XML_SUCCESS) {
      puts(document.ErrorStr());
      return 1;
    }
    Counter counter;
    document.Accept(&counter);
    printf("%d %d %d %d\n", counter.elements, counter.attributes, counter.texts, counter.comments);
  }
  XMLDocument wrong;
  wrong.Parse("<a><b></a>");
  puts(wrong.ErrorName());
  return 0;
}

static int change(const char *path) {
  XMLDocument document;
  if (document.LoadFile(path) != XML_SUCCESS)
    return 1;
  XMLElement *root = document.RootElement();
  int sum = 0, step = 0;
  for (XMLElement *line = root->FirstChildElement("line"); line;) {
    XMLElement *next = line->NextSiblingElement("line");
    int number = line->IntAttribute("number", -1);
    const char *text = line->GetText();
    sum += number + static_cast<int>(text ? strlen(text) : 0);
    switch (step++ % 4) {
    case 0:
      line->SetAttribute("half", number / 2.0);
      line->DeleteAttribute("number");
      break;
    case 1:
      line->InsertNewChildElement("sub")->SetText(number % 2 == 0);
      break;
    case 2:
      root->DeleteChild(line);
      break;
    default:
      line->InsertEndChild(document.NewComment(" <&> "));
    }
    line = next;
  }
  XMLPrinter indented, compact(nullptr, true);
  document.Print(&indented);
  document.Print(&compact);
  XMLDocument copy;
  document.DeepCopy(&copy);
  printf("%d %d %d %d\n", sum, static_cast<int>(indented.CStrSize()),
         static_cast<int>(compact.CStrSize()),
         copy.RootElement()->LastChildElement("line")->GetLineNum());
  fwrite(indented.CStr(), 1, 4000, stdout);
  return 0;
}

static int write(int count) {
  XMLDocument document;
  document.InsertFirstChild(document.NewDeclaration());
  XMLElement *table = document.NewElement("table");
  document.InsertEndChild(table);
  for (int n = 0; n < count; ++n) {
    XMLElement *row = table->InsertNewChildElement("row");
    row->SetAttribute("id", n);
    row->SetAttribute("name", ("a \"quoted\" <name> & more " + std::to_string(n * 7919)).c_str());
    row->InsertNewChildElement("price")->SetText(n * 0.25);
    row->InsertNewChildElement("sold")->SetText(n % 3 == 0);
    XMLText *raw = document.NewText("x < y && y > z");
    raw->SetCData(n % 5 == 0);
    row->InsertEndChild(raw);
  }
  XMLPrinter printer;
  document.Print(&printer);
  XMLPrinter stream;
  stream.PushHeader(false, true);
  stream.OpenElement("rows");
  for (const XMLElement *row = table->FirstChildElement(); row; row = row->NextSiblingElement()) {
    stream.OpenElement("row");
    stream.PushAttribute("id", row->Int64Attribute("id"));
    stream.PushText(row->FirstChildElement("price")->DoubleText());
    stream.CloseElement();
  }
  stream.CloseElement();
  printf("%d %d\n", static_cast<int>(printer.CStrSize()), static_cast<int>(stream.CStrSize()));
  fwrite(printer.CStr(), 1, 1000, stdout);
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  if (!strcmp(argv[1], "read"))
    return read(argv[2]);
  if (!strcmp(argv[1], "change")) {
    int failed = 0;
    for (int n = 0; n < 6; ++n)
      failed += change(argv[2]);
    return failed;
  }
  return write(std::stoi(argv[2]));
}
