// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "library_calls.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace mlbridge::hotness {

namespace {

struct Group {
  Purpose Which;
  std::initializer_list<StringLiteral> Names;
};

const Group Groups[] = {
    {Purpose::Print, {"printf",       "fprintf",       "vprintf", "vfprintf", "puts",   "fputs",
                      "putchar",      "fputc",         "putc",    "perror",   "warn",   "warnx",
                      "vwarn",        "vwarnx",        "syslog",  "dprintf",  "fflush", "_IO_putc",
                      "__printf_chk", "__fprintf_chk", "psignal", "vdprintf"}},
    {Purpose::Format,
     {"sprintf", "snprintf", "vsprintf", "vsnprintf", "asprintf", "vasprintf", "sscanf", "fscanf",
      "scanf", "vsscanf", "strftime", "strerror", "__isoc99_sscanf", "__isoc99_fscanf",
      "__sprintf_chk", "__snprintf_chk", "__isoc23_sscanf"}},
    {Purpose::End,
     {"exit", "_exit", "_Exit", "abort", "__assert_fail", "err", "errx", "verr", "verrx", "longjmp",
      "siglongjmp", "raise", "__assert", "quick_exit", "__stack_chk_fail", "_ZSt9terminatev"}},
    {Purpose::Allocate,
     {"malloc", "calloc", "realloc", "free", "reallocarray", "posix_memalign", "aligned_alloc",
      "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZnwmRKSt9nothrow_t", "mmap",
      "munmap", "_ZnwmSt11align_val_t", "_ZdlPvSt11align_val_t", "_ZnamRKSt9nothrow_t"}},
    {Purpose::Memory, {"memcpy", "memmove", "memset", "memcmp", "memchr", "bcmp", "memrchr"}},
    {Purpose::Text,
     {"strlen",
      "strcmp",
      "strncmp",
      "strcpy",
      "strncpy",
      "strcat",
      "strncat",
      "strchr",
      "strrchr",
      "strstr",
      "strdup",
      "strndup",
      "strtok",
      "strspn",
      "strcspn",
      "strpbrk",
      "strcasecmp",
      "strncasecmp",
      "stpcpy",
      "strtol",
      "strtoul",
      "strtoll",
      "strtoull",
      "strtod",
      "atoi",
      "atol",
      "atof",
      "tolower",
      "toupper",
      "isalpha",
      "isdigit",
      "isspace",
      "__ctype_b_loc",
      "__ctype_tolower_loc",
      "__ctype_toupper_loc",
      "strnlen",
      "__isoc23_strtol",
      "__isoc23_strtoul",
      "mbrtowc",
      "wcrtomb",
      "memccpy"}},
    {Purpose::File,
     {"fopen",   "fopen64",  "fclose",    "fread",   "fwrite",   "fseek",          "fseeko",
      "ftell",   "ftello",   "rewind",    "fgets",   "fgetc",    "getc",           "_IO_getc",
      "getchar", "ungetc",   "getline",   "open",    "open64",   "close",          "read",
      "write",   "lseek",    "lseek64",   "stat",    "fstat",    "lstat",          "stat64",
      "fstat64", "unlink",   "remove",    "rename",  "mkdir",    "rmdir",          "opendir",
      "readdir", "closedir", "ferror",    "feof",    "clearerr", "fileno",         "isatty",
      "access",  "chmod",    "fdopen",    "freopen", "tmpfile",  "mkstemp",        "pipe",
      "dup2",    "fsync",    "ftruncate", "chdir",   "setvbuf",  "fputs_unlocked", "socket",
      "connect", "bind",     "listen",    "accept",  "send",     "recv",           "select",
      "poll"}},
    {Purpose::Setting, {"getopt",         "getopt_long",   "getopt_long_only",
                        "getenv",         "secure_getenv", "setenv",
                        "putenv",         "setlocale",     "bindtextdomain",
                        "textdomain",     "gettext",       "dcgettext",
                        "signal",         "sigaction",     "atexit",
                        "__cxa_atexit",   "time",          "localtime",
                        "gmtime",         "gettimeofday",  "clock_gettime",
                        "system",         "fork",          "execvp",
                        "waitpid",        "dlopen",        "dlsym",
                        "pthread_create", "sysconf",       "isatty",
                        "srand",          "nl_langinfo"}},
    {Purpose::Math, {"sin",    "cos",    "tan",    "asin",  "acos",   "atan",  "atan2",  "sinh",
                     "cosh",   "tanh",   "exp",    "exp2",  "log",    "log2",  "log10",  "pow",
                     "sqrt",   "cbrt",   "floor",  "ceil",  "fabs",   "fmod",  "round",  "rint",
                     "lrint",  "hypot",  "ldexp",  "frexp", "modf",   "sinf",  "cosf",   "tanf",
                     "expf",   "logf",   "powf",   "sqrtf", "floorf", "ceilf", "fabsf",  "fmodf",
                     "roundf", "lrintf", "atan2f", "expm1", "log1p",  "erf",   "lgamma", "tgamma",
                     "hypotf", "log10f", "exp2f",  "log2f", "lround", "trunc", "ldexpf", "frexpf"}},
    {Purpose::Throw,
     {"__cxa_throw", "__cxa_rethrow", "__cxa_allocate_exception", "__cxa_free_exception",
      "__cxa_begin_catch", "__cxa_end_catch", "_Unwind_Resume", "__cxa_bad_cast",
      "__cxa_throw_bad_array_new_length", "__cxa_pure_virtual"}},
};

StringMap<Purpose> table() {
  StringMap<Purpose> Known;
  for (const auto &[Which, Names] : Groups)
    for (const StringLiteral &Name : Names)
      Known.try_emplace(Name, Which);
  return Known;
}

} // namespace

Purpose purposeOf(StringRef Name) {
  static const StringMap<Purpose> Known = table();
  if (const auto Found = Known.find(Name); Found != Known.end())
    return Found->second;
  if (!Name.starts_with("_ZS") && !Name.starts_with("_ZNS"))
    return Purpose::Other;
  return StringSwitch<Purpose>(Name)
      .StartsWith("_ZNSo", Purpose::Print) // std::ostream
      .StartsWith("_ZStls", Purpose::Print)
      .StartsWith("_ZNSi", Purpose::File) // std::istream
      .StartsWith("_ZSt16__throw", Purpose::Throw)
      .StartsWith("_ZSt17__throw", Purpose::Throw)
      .StartsWith("_ZSt19__throw", Purpose::Throw)
      .StartsWith("_ZSt20__throw", Purpose::Throw)
      .StartsWith("_ZSt24__throw", Purpose::Throw)
      .StartsWith("_ZSt25__throw", Purpose::Throw)
      .StartsWith("_ZSt28__throw", Purpose::Throw)
      .StartsWith("_ZSt4endl", Purpose::Print)
      .StartsWith("_ZSt16__ostream_insert", Purpose::Print)
      .Default(Purpose::Other);
}

} // namespace mlbridge::hotness
