# What every target of the project is built with.
find_package(Threads REQUIRED)

add_library(mlbridge_flags INTERFACE)
target_compile_features(mlbridge_flags INTERFACE cxx_std_17)
target_compile_options(mlbridge_flags INTERFACE -Wall -Wextra $<$<BOOL:${MLBRIDGE_WERROR}>:-Werror>
                       -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.) # objects don't depend on where the tree is
if(MLBRIDGE_SANITIZE)
  target_compile_options(mlbridge_flags INTERFACE -fsanitize=${MLBRIDGE_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all -fno-sanitize=vptr) # callers may be built without RTTI
  target_link_options(mlbridge_flags INTERFACE -fsanitize=${MLBRIDGE_SANITIZE})
endif()

set(MLBRIDGE_COMPONENT_OUTPUT ${CMAKE_BINARY_DIR}/lib/mlbridge)

# mlbridge_missing(PART WHAT): something that a part needs is not there. An error if the part is ON, else a notice.
function(mlbridge_missing part what)
  if(NOT MLBRIDGE_${part} STREQUAL "ON")
    message(STATUS "MLBRIDGE_${part}: not built, ${what}")
    return()
  endif()
  message(FATAL_ERROR "MLBRIDGE_${part}=ON: ${what}\nTo do without it: -DMLBRIDGE_${part}=OFF, or "
          "pip install . --config-settings=cmake.define.MLBRIDGE_${part}=OFF")
endfunction()

# Sets Protobuf_FOUND; by the package file that comes with versions from 22 on, and brings Abseil, or by CMake's module.
macro(mlbridge_find_protobuf)
  find_package(Protobuf CONFIG QUIET)
  if(NOT Protobuf_FOUND)
    find_package(Protobuf 3.21 MODULE QUIET)
  endif()
endmacro()

# mlbridge_compile_together(TARGETS...): in a package, which is mostly built as a whole, the files of these are compiled
# several at once, which takes half the time where most of it goes to the same headers, such as LLVM's. So no two of a
# target's files may give one name to different things. Not for the library, of which each plugin links a few objects.
function(mlbridge_compile_together)
  if(MLBRIDGE_COMPILE_TOGETHER)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()

# mlbridge_sources(FILES...): adds files of this folder to the library.
function(mlbridge_sources)
  foreach(file IN LISTS ARGN)
    target_sources(mlbridge PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
endfunction()

# mlbridge_quick_build(TARGET): what is run once takes longer to optimize than to run. A program of -O2 -g costs three
# times the time of one of -O0. (Measured too: a precompiled header of GoogleTest and the public headers saves an
# eighth of that, has 108 MB, and ties each object to it.)
function(mlbridge_quick_build target)
  target_compile_options(${target} PRIVATE -O0)
  get_target_property(type ${target} TYPE)
  if(MLBRIDGE_LLD AND type STREQUAL "EXECUTABLE")
    target_link_options(${target} PRIVATE -fuse-ld=lld -B${MLBRIDGE_LLD_FOLDER})
  endif()
endfunction()

# mlbridge_test(NAME SOURCES... [LIBS libs] [SLOW] [THREADS] [TIMEOUT seconds]): a GoogleTest program, linked to the
# library. CTest runs each of its tests by itself, under sanitizers all in one process, because starting one is slow
# there. Its label is unit, component outside of src, or slow, which `make check` leaves out. THREADS: what it tests
# runs in several threads, so that ThreadSanitizer has something to see; the target `threads` builds those.
function(mlbridge_test name)
  if(NOT MLBRIDGE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "SLOW;THREADS" "TIMEOUT" "LIBS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE MLBridge::core mlbridge_flags mlbridge_testing GTest::gtest_main ${arg_LIBS})
  mlbridge_quick_build(${name})
  if(MLBRIDGE_NATIVE)
    target_compile_definitions(${name} PRIVATE MLBRIDGE_HAS_NATIVE)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set(label component)
  if(arg_THREADS)
    add_dependencies(threads ${name})
  endif()
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/src/")
    set(label unit)
  endif()
  if(arg_SLOW)
    set(label slow)
  endif()
  if(arg_THREADS)
    string(APPEND label -threads) # one word, as lists of words don't go through gtest_discover_tests
  endif()
  set(properties TIMEOUT ${arg_TIMEOUT} LABELS ${label}
                 ENVIRONMENT MLBRIDGE_COMPONENT_PATH=${MLBRIDGE_COMPONENT_OUTPUT})
  if(MLBRIDGE_SANITIZE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES ${properties})
  else()
    gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST
                         NO_PRETTY_TYPES NO_PRETTY_VALUES PROPERTIES ${properties})
  endif()
endfunction()

# mlbridge_distribute(TARGET FOLDER DISTRIBUTION): the target's file is in this folder of the package `mlbridge`, in the
# wheel of this distribution, which is an install component: `python` is the main one, the others have their metadata in
# python/distributions.
function(mlbridge_distribute target folder distribution)
  if(SKBUILD OR MLBRIDGE_BUILD_PYTHON)
    install(TARGETS ${target} LIBRARY DESTINATION mlbridge/${folder} COMPONENT ${distribution} NAMELINK_SKIP)
    if(NOT distribution STREQUAL "python") # pip deletes the folder with the last one that has a file in it
      install(FILES ${PROJECT_SOURCE_DIR}/python/distributions/${distribution}/README.md DESTINATION mlbridge
              RENAME ${distribution}.md COMPONENT ${distribution})
    endif()
    set_property(GLOBAL APPEND PROPERTY MLBRIDGE_DISTRIBUTED ${target})
  endif()
endfunction()

# mlbridge_component(NAME SOURCES... [LIBS libs] [DISTRIBUTION name]): a shared object libNAME.so that exports
# mlb_component_entry and nothing else; installed, and part of a wheel.
function(mlbridge_component name)
  cmake_parse_arguments(arg "" "DISTRIBUTION" "LIBS" ${ARGN})
  if(NOT arg_DISTRIBUTION)
    set(arg_DISTRIBUTION python)
  endif()
  add_library(${name} MODULE ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE mlbridge_flags ${arg_LIBS})
  if(NOT (MLBRIDGE_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")) # whose run time is in the program
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/component.map)
  set_target_properties(${name} PROPERTIES PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${MLBRIDGE_COMPONENT_OUTPUT}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/component.map)
  install(TARGETS ${name} LIBRARY DESTINATION ${MLBRIDGE_COMPONENT_DIR} COMPONENT components)
  mlbridge_distribute(${name} components ${arg_DISTRIBUTION})
  set_property(GLOBAL APPEND PROPERTY MLBRIDGE_COMPONENTS ${name})
endfunction()
