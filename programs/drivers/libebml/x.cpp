// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes and reads elements of EBML, as a container of videos has them.
#include <cstdio>
#include <cstring>
#include <string>

#include "ebml/EbmlContexts.h"
#include "ebml/EbmlCrc32.h"
#include "ebml/EbmlHead.h"
#include "ebml/EbmlStream.h"
#include "ebml/EbmlSubHead.h"
#include "ebml/EbmlVoid.h"
#include "ebml/MemIOCallback.h"
#include "ebml/StdIOCallback.h"

using namespace libebml;

static void write(IOCallback &out, int count, bool checksum) {
  for (int n = 0; n < count; ++n) {
    EbmlHead head;
    head.EnableChecksum(checksum);
    static_cast<EbmlString &>(GetChild<EDocType>(head)) = "type-" + std::to_string(n % 10);
    static_cast<EbmlUInteger &>(GetChild<EDocTypeVersion>(head)) = n % 7;
    static_cast<EbmlUInteger &>(GetChild<EDocTypeReadVersion>(head)) = n * 65537ull;
    static_cast<EbmlUInteger &>(GetChild<EMaxIdLength>(head)) = 4;
    auto *space = new EbmlVoid;
    space->SetSize(n % 300);
    head.PushElement(*space);
    if (n % 3 == 0)
      head.Sort();
    head.UpdateSize(true);
    head.Render(out, true);
  }
}

static void read(IOCallback &in) {
  EbmlStream stream(in);
  unsigned long long sum = 0;
  int heads = 0, children = 0, good = 0;
  in.setFilePointer(0);
  while (EbmlElement *element = stream.FindNextID(EBML_INFO(EbmlHead), 1000000)) {
    int upper = 0;
    EbmlElement *found = nullptr;
    element->Read(stream, EBML_CONTEXT(element), upper, found, true);
    if (auto *head = dynamic_cast<EbmlHead *>(element)) {
      ++heads;
      good += head->VerifyChecksum() && head->CheckMandatory();
      children += static_cast<int>(head->ListSize());
      if (auto *type = FindChild<EDocType>(*head))
        sum += std::string(*type).size();
      if (auto *version = FindChild<EDocTypeReadVersion>(*head))
        sum += uint64(*version);
    }
    element->SkipData(stream, EBML_CONTEXT(element));
    delete element;
  }
  printf("%d heads, %d children, %d good, %llu\n", heads, children, good, sum);
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  int count = std::stoi(argv[2]);
  if (!strcmp(argv[1], "file")) {
    {
      StdIOCallback out("head.ebml", MODE_CREATE);
      write(out, count, false);
    }
    StdIOCallback in("head.ebml", MODE_READ);
    read(in);
    return 0;
  }
  MemIOCallback memory;
  write(memory, count, !strcmp(argv[1], "checksum"));
  for (int n = 0; n < (strcmp(argv[1], "read") ? 1 : 8); ++n)
    read(memory);
  return 0;
}
