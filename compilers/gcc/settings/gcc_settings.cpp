// SPDX-License-Identifier: GPL-3.0-or-later
// A plugin for GCC 12: for each function a model chooses among optimization settings (README.md).
//
// This file is compiled with GCC's headers, so it and the plugin made from it are under the GNU
// General Public License, version 3 or later. It uses MLBridge through libmlbridge-c.so alone.
#include "shared/levels.h"

#include <mlbridge/c/mlbridge.h>

#define INCLUDE_STRING
#define INCLUDE_VECTOR
#include <gcc-plugin.h>
#include <plugin-version.h>

// Each of these headers needs those before it.
#include <tree.h>

#include <gimple.h>
#include <stringpool.h>

#include <attribs.h>
#include <cfgloop.h>
#include <cgraph.h>
#include <diagnostic.h>
#include <gimple-iterator.h>
#include <opts.h>
#include <target.h>
#include <toplev.h>

int plugin_is_GPL_compatible;

namespace {

/// A group of options, which the model chooses by its number.
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

/// The features of a function, in the order in which the model sees them.
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
  bool mustNotFail = false;
};
Options Given;

/// Gives one warning, which -Werror lets pass, or the error that on-failure=fail asks for.
void giveUp(const std::string &why) {
  if (Given.mustNotFail) {
    error_at(UNKNOWN_LOCATION, "gcc-settings: %s", why.c_str());
    return;
  }
  const bool asError = global_dc->warning_as_error_requested;
  global_dc->warning_as_error_requested = false;
  warning_at(UNKNOWN_LOCATION, 0, "gcc-settings: %s; the settings stay GCC%'s own", why.c_str());
  global_dc->warning_as_error_requested = asError;
}

/// The command line's options for optimization, whatever the source's last pragma says.
const cl_optimization &commandLine() { return *TREE_OPTIMIZATION(optimization_default_node); }

/// "O2", as the command line names it.
std::string level() {
  const cl_optimization &line = commandLine();
  if (line.x_optimize_debug)
    return "Og";
  if (line.x_optimize_size)
    return line.x_optimize_size > 1 ? "Oz" : "Os";
  return "O" + std::to_string(MIN(line.x_optimize, 3));
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
  features[Level] = commandLine().x_optimize;
  features[IsForSize] = commandLine().x_optimize_size > 0;
}

/// A function with options of its own keeps them, also if they are those of the command line.
bool isDecided(const cgraph_node *node) {
  const function *body = DECL_STRUCT_FUNCTION(node->decl);
  const tree own = DECL_FUNCTION_SPECIFIC_OPTIMIZATION(node->decl);
  return body && body->cfg && !DECL_DISREGARD_INLINE_LIMITS(node->decl) &&
         (!own || own == optimization_default_node) &&
         !lookup_attribute("optimize", DECL_ATTRIBUTES(node->decl));
}

/// The size of an option's variable; 0 if it has none, or one that isn't compared.
size_t sizeOf(const cl_option &option) {
  switch (option.var_type) {
  case CLVC_ENUM:
    return cl_enums[option.var_enum].var_size;
  case CLVC_STRING:
    return sizeof(const char *);
  case CLVC_DEFER:
    return 0;
  default:
    return option.cl_host_wide_int ? sizeof(HOST_WIDE_INT) : sizeof(int);
  }
}

bool isSame(unsigned option, gcc_options &one, gcc_options &other) {
  const void *first = option_flag_var(option, &one), *second = option_flag_var(option, &other);
  if (cl_options[option].var_type == CLVC_STRING) {
    const char *a = *static_cast<const char *const *>(first);
    const char *b = *static_cast<const char *const *>(second);
    return a == b || (a && b && strcmp(a, b) == 0);
  }
  return memcmp(first, second, sizeOf(cl_options[option])) == 0;
}

/// True if the option is on, in values, or stated, in marks.
bool isSet(unsigned option, gcc_options &options) {
  const char *variable = static_cast<const char *>(option_flag_var(option, &options));
  for (size_t i = 0; i < sizeOf(cl_options[option]); ++i)
    if (variable[i])
      return true;
  return false;
}

/// GCC's options in force, and the marks of those that the command line states.
struct OptionState {
  gcc_options values, stated;
};

/// While it lives, GCC's own options are those of the command line, whatever pragmas and attributes
/// say, and GCC is silent; then all is as before.
class CommandLineInForce {
public:
  CommandLineInForce()
      : before_{global_options, global_options_set},
        warningsInhibited_(global_dc->dc_inhibit_warnings),
        notesInhibited_(global_dc->inhibit_notes_p) {
    cl_optimization_restore(&global_options, &global_options_set,
                            TREE_OPTIMIZATION(optimization_default_node));
    global_dc->dc_inhibit_warnings = global_dc->inhibit_notes_p = true;
  }
  ~CommandLineInForce() {
    global_options = before_.values;
    global_options_set = before_.stated;
    global_dc->dc_inhibit_warnings = warningsInhibited_;
    global_dc->inhibit_notes_p = notesInhibited_;
  }
  CommandLineInForce(const CommandLineInForce &) = delete;
  CommandLineInForce &operator=(const CommandLineInForce &) = delete;

private:
  const OptionState before_;
  const bool warningsInhibited_, notesInhibited_;
};

/// The values of the options in force after these and, without its level, the command line have
/// been read once more. Requires that the command line's options are in force.
gcc_options readBeforeCommandLine(const std::vector<const char *> &options) {
  std::vector<const char *> words = {"gcc-settings"};
  words.insert(words.end(), options.begin(), options.end());
  cl_decoded_option *decoded = nullptr;
  unsigned size = 0;
  decode_cmdline_options_to_array_default_mask(words.size(), words.data(), &decoded, &size);
  std::vector<cl_decoded_option> all(decoded, decoded + size);
  free(decoded);
  for (const cl_decoded_option &option : *save_opt_decoded_options)
    switch (option.opt_index) {
    case OPT_O:
    case OPT_Ofast:
    case OPT_Og:
    case OPT_Os:
    case OPT_Oz:
      break;
    default:
      all.push_back(option);
    }
  const OptionState line = {global_options, global_options_set};
  global_options.x_optimize_fast = 0; // it has options of its own, which are no matter of the level
  // Options of a language can be read into GCC's own alone.
  decode_options(&global_options, &global_options_set, all.data(), all.size(), UNKNOWN_LOCATION,
                 global_dc, nullptr);
  const gcc_options values = global_options;
  global_options = line.values;
  global_options_set = line.stated;
  return values;
}

/// GCC aligns nothing in a function that is for size, even if the command line asks for it.
bool asksForAlignment(OptionState &line) {
  for (const unsigned option :
       {OPT_falign_functions, OPT_falign_functions_, OPT_falign_jumps, OPT_falign_jumps_,
        OPT_falign_labels, OPT_falign_labels_, OPT_falign_loops, OPT_falign_loops_})
    if (isSet(option, line.stated) && isSet(option, line.values))
      return true;
  return false;
}

/// The command line's options with what the setting means. GCC's attribute optimize("Os") also
/// resets options that the command line states or implies; here an option changes only if its value
/// is the one that GCC gives it by itself, and would give it another for the setting's options.
/// Below -O2 a higher level turns nothing on: neither what GCC assumes of a program only then, such
/// as -fstrict-aliasing, nor what is off because of another option, such as -fipa-ra with -pg.
tree optimizationNode(const Setting &setting) {
  const CommandLineInForce inForce;
  OptionState line = {global_options, global_options_set};
  gcc_options plain = readBeforeCommandLine({});
  gcc_options changed = readBeforeCommandLine(setting.options);
  if (changed.x_optimize_size > line.values.x_optimize_size && asksForAlignment(line))
    return optimization_default_node;
  const bool keepsOff = line.values.x_optimize < 2 && changed.x_optimize > line.values.x_optimize;
  OptionState result = line;
  for (unsigned i = 0; i < cl_options_count; ++i)
    if ((cl_options[i].flags & CL_OPTIMIZATION) && option_flag_var(i, &line.values) &&
        !isSet(i, line.stated) && isSame(i, plain, line.values) && !isSame(i, plain, changed) &&
        !(keepsOff && !isSet(i, line.values)))
      memcpy(option_flag_var(i, &result.values), option_flag_var(i, &changed),
             sizeOf(cl_options[i]));
  result.values.x_optimize = changed.x_optimize;
  result.values.x_optimize_size = changed.x_optimize_size;
  result.values.x_optimize_debug = changed.x_optimize_debug;
  result.values.x_optimize_fast = line.values.x_optimize_fast && changed.x_optimize == 3;
  return build_optimization_node(&result.values, &result.stated);
}

std::string names() {
  std::string all;
  for (const Setting &setting : Settings)
    all += (all.empty() ? "" : ",") + std::string(setting.name);
  return all;
}

/// Asks the model about each function. Returns what stopped it, or "".
std::string ask(const std::vector<cgraph_node *> &nodes, std::vector<int64_t> &chosen) {
  const int64_t shape[] = {FeatureCount};
  const mlbridge_tensor_spec input = {sizeof input, "features", MLBRIDGE_FLOAT32, 1,
                                      shape,        nullptr};
  const mlbridge_tensor_spec output = {sizeof output, "setting", MLBRIDGE_INT64, 0,
                                       nullptr,       nullptr};
  const mlbridge_signature signature = {sizeof signature, &input, 1, &output, 1};
  std::string uri = Given.model;
  if (!Given.deadline.empty())
    uri += "?deadline=" + Given.deadline;
  const std::string unit = main_input_filename ? main_input_filename : "";
  mlbridge_open_options opening = {sizeof opening, 0, false, {nullptr, nullptr, unit.c_str()}};
  mlbridge_model *model = mlbridge_model_open(uri.c_str(), &opening);
  std::string why;
  if (mlbridge_model_bind(model, &signature))
    why = mlbridge_model_message(model);
  else if (const char *known = mlbridge_model_metadata(model, "settings");
           known && known != names())
    why = Given.model + ": expected a model of the settings " + names() + ", got one of " + known;
  for (size_t i = 0; why.empty() && i < nodes.size(); ++i) {
    const std::string place = unit + ":" + nodes[i]->asm_name();
    opening.context.unit = place.c_str();
    mlbridge_runner *runner = mlbridge_model_new_runner_for(model, &opening.context, 0);
    float features[FeatureCount] = {};
    describe(nodes[i], features);
    mlbridge_runner_set_at(runner, 0, MLBRIDGE_FLOAT32, features, FeatureCount);
    int64_t setting = 0;
    if (mlbridge_evaluate_int64(runner, &setting))
      why = mlbridge_runner_message(runner);
    else if (setting < 0 || setting >= int64_t(ARRAY_SIZE(Settings)))
      why = Given.model + ": expected a setting below " + std::to_string(ARRAY_SIZE(Settings)) +
            ", got " + std::to_string(setting);
    chosen.push_back(setting);
    mlbridge_runner_destroy(runner);
  }
  mlbridge_model_close(model);
  return why;
}

/// A profile belongs to the control flow of the functions that were instrumented, which settings
/// change: GCC refuses one of other control flow.
bool isProfiled() {
  return profile_arc_flag || flag_test_coverage || flag_branch_probabilities || flag_auto_profile;
}

/// All functions are GIMPLE with a control flow graph then, and none is optimized.
void decide(void *, void *) {
  if (in_lto_p || seen_error() || Given.model.empty() ||
      !mlbridge::plugin::hasLevel(Given.levels, level()) || isProfiled())
    return;
  std::vector<cgraph_node *> nodes;
  cgraph_node *node;
  FOR_EACH_FUNCTION_WITH_GIMPLE_BODY(node)
  if (isDecided(node))
    nodes.push_back(node);
  std::vector<int64_t> chosen;
  const std::string why = nodes.empty() ? "" : ask(nodes, chosen);
  if (!why.empty())
    return giveUp(why);
  tree optimizations[ARRAY_SIZE(Settings)] = {};
  for (size_t i = 0; i < nodes.size(); ++i)
    if (const int64_t setting = chosen[i]) {
      if (!optimizations[setting])
        optimizations[setting] = optimizationNode(Settings[setting]);
      if (optimizations[setting] != optimization_default_node)
        DECL_FUNCTION_SPECIFIC_OPTIMIZATION(nodes[i]->decl) = optimizations[setting];
    }
}

bool read(const std::string &key, const std::string &value) {
  if (value.empty())
    return false;
  if (key == "model")
    Given.model = value;
  else if (key == "deadline")
    Given.deadline = value;
  else if (key == "levels" && mlbridge::plugin::areLevels(value, "O0,O1,O2,O3,Os,Oz,Og"))
    Given.levels = value;
  else if (key == "on-failure" && (value == "stock" || value == "fail"))
    Given.mustNotFail = value == "fail";
  else
    return key == "fingerprint"; // of plugin and model, for compiler caches
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

int plugin_init(plugin_name_args *given, plugin_gcc_version *version) {
  // A message is the same in all versions of GCC, the rest is not.
  for (int i = 0; i < given->argc; ++i)
    if (const char *value = given->argv[i].value; !read(given->argv[i].key, value ? value : ""))
      error("gcc-settings: %<-fplugin-arg-%s-%s%> with %qs: expected model=URI, deadline=TIME, "
            "levels=O2,Os or on-failure=stock|fail",
            given->base_name, given->argv[i].key, value ? value : "");
  if (!plugin_default_version_check(version, &gcc_version)) {
    giveUp(std::string("the plugin was built for GCC ") + gcc_version.basever + " of " +
           gcc_version.datestamp + ", and this is " + version->basever + " of " +
           version->datestamp + ": it needs one built for this (docs/installing.md)");
    return 0;
  }
  takeOptions(std::string(given->base_name) + "-");
  register_callback(given->base_name, PLUGIN_ALL_IPA_PASSES_START, decide, nullptr);
  return 0;
}
