// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of characters that RE2's scripts would generate, for Latin letters.
#include "re2/unicode_casefold.h"
#include "re2/unicode_groups.h"

namespace re2 {

static const URange16 digits[] = {{'0', '9'}};
static const URange16 spaces[] = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
static const URange16 wordLetters[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const URange16 alphabet[] = {{'A', 'Z'}, {'a', 'z'}};
static const URange16 upper[] = {{'A', 'Z'}};
static const URange16 lower[] = {{'a', 'z'}};
static const URange16 punctuation[] = {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
static const URange16 letters[] = {{'A', 'Z'},     {'a', 'z'},     {0xaa, 0xaa},  {0xb5, 0xb5},
                                   {0xba, 0xba},   {0xc0, 0xd6},   {0xd8, 0xf6},  {0xf8, 0x24f},
                                   {0x386, 0x386}, {0x388, 0x3ce}, {0x400, 0x481}};
static const URange32 more[] = {{0x10000, 0x1000b}, {0x20000, 0x2a6d6}};
static const URange16 decimals[] = {{'0', '9'}, {0x660, 0x669}, {0x966, 0x96f}};
static const URange16 modifiers[] = {{0x2b0, 0x2c1}};
static const URange16 ideographs[] = {{0xaa, 0xaa}, {0x4e00, 0x9fff}};
static const URange16 titles[] = {{0x1c5, 0x1c5}};
static const URange16 marks[] = {{0x300, 0x36f}};
static const URange16 romanNumbers[] = {{0x2160, 0x2182}};
static const URange16 connectors[] = {{'_', '_'}, {0x203f, 0x2040}};

const UGroup perl_groups[] = {
    {"\\d", +1, digits, 1, nullptr, 0},      {"\\D", -1, digits, 1, nullptr, 0},
    {"\\s", +1, spaces, 3, nullptr, 0},      {"\\S", -1, spaces, 3, nullptr, 0},
    {"\\w", +1, wordLetters, 4, nullptr, 0}, {"\\W", -1, wordLetters, 4, nullptr, 0},
};
const int num_perl_groups = 6;

const UGroup posix_groups[] = {
    {"[:alpha:]", +1, alphabet, 2, nullptr, 0},    {"[:^alpha:]", -1, alphabet, 2, nullptr, 0},
    {"[:digit:]", +1, digits, 1, nullptr, 0},      {"[:upper:]", +1, upper, 1, nullptr, 0},
    {"[:lower:]", +1, lower, 1, nullptr, 0},       {"[:word:]", +1, wordLetters, 4, nullptr, 0},
    {"[:punct:]", +1, punctuation, 4, nullptr, 0},
};
const int num_posix_groups = 7;

const UGroup unicode_groups[] = {
    {"L", +1, letters, 11, more, 2},       {"Ll", +1, lower, 1, nullptr, 0},
    {"Lm", +1, modifiers, 1, nullptr, 0},  {"Lo", +1, ideographs, 2, more, 2},
    {"Lt", +1, titles, 1, nullptr, 0},     {"Lu", +1, upper, 1, nullptr, 0},
    {"Mc", +1, marks, 1, nullptr, 0},      {"Mn", +1, marks, 1, nullptr, 0},
    {"Nd", +1, decimals, 3, nullptr, 0},   {"Nl", +1, romanNumbers, 1, nullptr, 0},
    {"Pc", +1, connectors, 2, nullptr, 0},
};
const int num_unicode_groups = 11;

const CaseFold unicode_casefold[] = {
    {'A', 'Z', 32},          {'a', 'z', -32},    {0xc0, 0xd6, 32},
    {0xd8, 0xde, 32},        {0xe0, 0xf6, -32},  {0xf8, 0xfe, -32},
    {0x100, 0x12f, EvenOdd}, {0x410, 0x42f, 32}, {0x430, 0x44f, -32},
};
const int num_unicode_casefold = 9;

const CaseFold unicode_tolower[] = {
    {'A', 'Z', 32},     {0xc0, 0xd6, 32}, {0xd8, 0xde, 32}, {0x100, 0x12f, EvenOddSkip},
    {0x410, 0x42f, 32},
};
const int num_unicode_tolower = 5;

} // namespace re2
