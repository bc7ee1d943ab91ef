# mlbridge_optimize(TARGET... [OPTIMIZATIONS NAME...] [LTO full|thin] [EFFORT N])
#
# Compiles and links these targets with what `mlbridge flags` prints (of the Python package; the
# variable MLBRIDGE_COMMAND says which): for `smallest`, unless other optimizations are named. It
# does nothing at levels other than those of the optimizations, so choose -Oz, as for smallest. What
# links a static library of these gets the flags for the link, too.
# The compiler must be clang 22. Needs no more of MLBridge's CMake package than this file, whose
# place `mlbridge path cmake` prints.
cmake_policy(PUSH)
cmake_policy(VERSION 3.20)

function(mlbridge_optimize)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "LTO;EFFORT" "OPTIMIZATIONS")
  if(arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "mlbridge_optimize: expected a value after ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  if(NOT arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mlbridge_optimize: expected targets")
  endif()
  if(NOT arg_OPTIMIZATIONS)
    set(arg_OPTIMIZATIONS smallest)
  endif()
  foreach(language C CXX)
    if(CMAKE_${language}_COMPILER_ID AND
       NOT "${CMAKE_${language}_COMPILER_ID} ${CMAKE_${language}_COMPILER_VERSION}" MATCHES "^Clang 22[.]")
      message(FATAL_ERROR "mlbridge_optimize: expected clang 22, got ${CMAKE_${language}_COMPILER}")
    endif()
  endforeach()
  if(NOT MLBRIDGE_COMMAND)
    find_program(MLBRIDGE_COMMAND mlbridge REQUIRED NO_CMAKE_FIND_ROOT_PATH
                 DOC "MLBridge's command, of its Python package")
  endif()
  set(command ${MLBRIDGE_COMMAND} flags ${arg_OPTIMIZATIONS})
  if(arg_LTO)
    list(APPEND command --lto ${arg_LTO})
  endif()
  if(DEFINED arg_EFFORT)
    list(APPEND command --effort ${arg_EFFORT})
  endif()
  execute_process(COMMAND ${command} OUTPUT_VARIABLE flags ERROR_VARIABLE said RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "mlbridge_optimize: ${said}")
  endif()
  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:SHELL:${flags}>")
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(STATIC|OBJECT)_LIBRARY$") # whoever links it has to read bitcode
      target_link_options(${target} INTERFACE "SHELL:${flags}")
    else()
      target_link_options(${target} PRIVATE "SHELL:${flags}")
    endif()
    if(arg_OPTIMIZATIONS MATCHES "smallest|phase-ordering")
      cmake_language(EVAL CODE "cmake_language(DEFER CALL mlbridge_look_for_level [[${target}]])")
    endif()
  endforeach()
endfunction()

# Says it if no option that this directory can see is one of the levels for size.
function(mlbridge_look_for_level target)
  get_target_property(options ${target} COMPILE_OPTIONS)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  foreach(language C CXX)
    list(APPEND options ${CMAKE_${language}_FLAGS} ${CMAKE_${language}_FLAGS_${type}})
  endforeach()
  if(NOT CMAKE_CONFIGURATION_TYPES AND NOT "${options}" MATCHES "-O[sz]")
    message(NOTICE "mlbridge_optimize: no -Oz or -Os was seen for ${target}, and at other levels it changes nothing")
  endif()
endfunction()

cmake_policy(POP)
