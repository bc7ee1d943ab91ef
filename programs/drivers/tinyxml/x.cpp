// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads, changes and writes XML.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tinyxml.h"

static int countNodes(const TiXmlNode *node) {
  int count = 1;
  for (const TiXmlNode *child = node->FirstChild(); child; child = child->NextSibling())
    count += countNodes(child);
  return count;
}

static int read(const char *path) {
  for (int n = 0; n < 4; ++n) {
    TiXmlBase::SetCondenseWhiteSpace(n % 2 == 0);
    TiXmlDocument document(path);
    if (!document.LoadFile(n % 3 ? TIXML_ENCODING_UTF8 : TIXML_ENCODING_LEGACY)) {
      puts(document.ErrorDesc());
      return 1;
    }
    printf("%d\n", countNodes(&document));
  }
  TiXmlDocument wrong;
  wrong.Parse("<a><b></a>");
  printf("%s %d\n", wrong.ErrorDesc(), wrong.ErrorCol());
  return 0;
}

static int change(const char *path) {
  TiXmlDocument document;
  if (!document.LoadFile(path))
    return 1;
  TiXmlHandle handle(&document);
  TiXmlElement *root = handle.FirstChild("lines").ToElement();
  int sum = 0, step = 0;
  for (TiXmlElement *line = root->FirstChildElement("line"); line;) {
    TiXmlElement *next = line->NextSiblingElement("line");
    int number = 0;
    if (line->QueryIntAttribute("number", &number) != TIXML_SUCCESS)
      return 1;
    sum += number + static_cast<int>(line->GetText() ? strlen(line->GetText()) : 0);
    TiXmlElement sub("sub");
    switch (step++ % 4) {
    case 0:
      line->SetDoubleAttribute("half", number / 2.0);
      line->RemoveAttribute("number");
      break;
    case 1:
      sub.SetAttribute("text", "\"<&>\"");
      line->InsertEndChild(sub);
      break;
    case 2:
      root->RemoveChild(line);
      break;
    default:
      line->LinkEndChild(new TiXmlComment(" changed "));
    }
    line = next;
  }
  TiXmlPrinter printer;
  printer.SetIndent("  ");
  document.Accept(&printer);
  TiXmlDocument copy(document);
  TiXmlPrinter stream;
  stream.SetStreamPrinting();
  copy.Accept(&stream);
  printf("%d %d %d\n", sum, static_cast<int>(printer.Size()), static_cast<int>(stream.Size()));
  fwrite(printer.CStr(), 1, 4000, stdout);
  return 0;
}

static int write(int count, const char *path) {
  TiXmlDocument document;
  document.LinkEndChild(new TiXmlDeclaration("1.0", "UTF-8", ""));
  TiXmlElement *table = new TiXmlElement("table");
  document.LinkEndChild(table);
  for (int n = 0; n < count; ++n) {
    TiXmlElement *row = new TiXmlElement("row");
    row->SetAttribute("id", n);
    row->SetAttribute("name", n % 2 ? "a <name> & more" : "plain");
    row->SetDoubleAttribute("price", n * 0.25);
    TiXmlText *text = new TiXmlText("x < y && y > z");
    text->SetCDATA(n % 5 == 0);
    row->LinkEndChild(text);
    table->LinkEndChild(row);
  }
  return document.SaveFile(path) ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  if (!strcmp(argv[1], "read"))
    return read(argv[2]);
  if (!strcmp(argv[1], "change"))
    return change(argv[2]);
  return argc > 3 ? write(atoi(argv[2]), argv[3]) : 2;
}
