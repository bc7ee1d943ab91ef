# Plugins for stock clang, opt and llc, and the LLVM that they are compiled for.

# mlbridge_find_llvm(VERSION): makes mlbridge_llvm_VERSION, the flags that a plugin has to share with the LLVM that loads
# it and the folders of shared headers ("plugin/flags.h", "shared/agents.h"), and sets LLVM_VERSION_LIBRARY_DIRS. A
# function, as each version's CMake package sets the same variables.
function(mlbridge_find_llvm version)
  if(version EQUAL 22)
    # LLVM's version file takes "22" for 22.0, so the major version is compared here.
    find_package(LLVM CONFIG QUIET HINTS /usr/lib/llvm-22)
  else()
    # find_package would remember one place for all versions.
    include(/usr/lib/llvm-${version}/lib/cmake/llvm/LLVMConfig.cmake OPTIONAL RESULT_VARIABLE LLVM_FOUND)
  endif()
  if(NOT LLVM_FOUND OR NOT LLVM_VERSION_MAJOR EQUAL version)
    message(STATUS "LLVM ${version}: no plugins, its CMake package was not found (Debian: llvm-${version}-dev)")
    return()
  endif()
  separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  add_library(mlbridge_llvm_${version} INTERFACE)
  target_include_directories(mlbridge_llvm_${version} SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
  target_include_directories(mlbridge_llvm_${version} INTERFACE ${PROJECT_SOURCE_DIR}/compilers/llvm
                                                                ${PROJECT_SOURCE_DIR}/compilers)
  # NDEBUG changes the layout of some classes.
  target_compile_definitions(mlbridge_llvm_${version} INTERFACE $<$<NOT:$<BOOL:${LLVM_ENABLE_ASSERTIONS}>>:NDEBUG>)
  target_compile_options(mlbridge_llvm_${version} INTERFACE ${llvm_definitions}
    $<$<NOT:$<BOOL:${LLVM_ENABLE_EH}>>:-fno-exceptions> $<$<NOT:$<BOOL:${LLVM_ENABLE_RTTI}>>:-fno-rtti>)
  set(LLVM_${version}_LIBRARY_DIRS ${LLVM_LIBRARY_DIRS} PARENT_SCOPE)
endfunction()

# mlbridge_llvm_objects(NAME SOURCES... [VERSIONS versions]): NAME_22 and NAME_19, compiled for that LLVM, for OBJECTS of
# plugins. The sources can include what was configured into "generated".
function(mlbridge_llvm_objects name)
  cmake_parse_arguments(arg "" "" "VERSIONS" ${ARGN})
  if(NOT arg_VERSIONS)
    set(arg_VERSIONS 22 19)
  endif()
  foreach(version IN LISTS arg_VERSIONS)
    if(NOT TARGET mlbridge_llvm_${version})
      continue()
    endif()
    set(target ${name}_${version})
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${arg_UNPARSED_ARGUMENTS})
    target_link_libraries(${target} PRIVATE mlbridge_flags mlbridge_llvm_${version})
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated
      ${PROJECT_SOURCE_DIR}/include INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    mlbridge_compile_together(${target})
  endforeach()
endfunction()

# mlbridge_llvm_plugin(NAME SOURCES... [LIBS libs] [OBJECTS names] [VERSIONS versions] [INSTALL] [DISTRIBUTION name]):
# NAME.so for LLVM 22 and
# NAME-19.so for 19, as VERSIONS says (22), each of which exports LLVM's entry point and nothing else, and takes LLVM's
# symbols from the process that loads it. INSTALL: it is installed, and part of a wheel, unless MLBRIDGE_LLVM_PLUGINS
# leaves it out; unless stated, its versions are those in the folder's optimization.toml, and its distribution is that of
# LLVM's plugins of that version.
function(mlbridge_llvm_plugin name)
  cmake_parse_arguments(arg "INSTALL" "DISTRIBUTION" "LIBS;OBJECTS;VERSIONS" ${ARGN})
  if(NOT arg_VERSIONS AND arg_INSTALL)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS optimization.toml)
    file(STRINGS optimization.toml line REGEX "^versions" LIMIT_COUNT 1)
    string(REGEX MATCHALL "[0-9]+" arg_VERSIONS "${line}")
  elseif(NOT arg_VERSIONS)
    set(arg_VERSIONS 22)
  endif()
  set(map ${PROJECT_SOURCE_DIR}/compilers/llvm/plugin.map)
  foreach(version IN LISTS arg_VERSIONS)
    if(NOT TARGET mlbridge_llvm_${version})
      continue()
    endif()
    set(target ${name})
    if(NOT version EQUAL 22)
      string(APPEND target -${version})
    endif()
    if(arg_INSTALL AND MLBRIDGE_LLVM_PLUGINS AND NOT target IN_LIST MLBRIDGE_LLVM_PLUGINS)
      continue()
    endif()
    add_library(${target} MODULE ${arg_UNPARSED_ARGUMENTS})
    target_link_libraries(${target} PRIVATE mlbridge_flags mlbridge_llvm_${version} ${arg_LIBS})
    foreach(objects IN LISTS arg_OBJECTS)
      target_link_libraries(${target} PRIVATE ${objects}_${version})
    endforeach()
    target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script=${map})
    set_target_properties(${target} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${MLBRIDGE_COMPONENT_OUTPUT}
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${map})
    mlbridge_compile_together(${target})
    if(arg_INSTALL)
      set(component ${MLBRIDGE_COMPILER}-${version}) # CMake's, which is a Debian package
      if(MLBRIDGE_PLUGINS_IN_ALL)
        install(TARGETS ${target} LIBRARY DESTINATION ${MLBRIDGE_COMPONENT_DIR} COMPONENT ${component})
      else()
        set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
        install(TARGETS ${target} LIBRARY DESTINATION ${MLBRIDGE_COMPONENT_DIR} COMPONENT ${component} OPTIONAL)
      endif()
      if(arg_DISTRIBUTION)
        mlbridge_distribute(${target} plugins ${arg_DISTRIBUTION})
      else()
        mlbridge_distribute(${target} plugins llvm${version})
      endif()
    endif()
  endforeach()
endfunction()

# mlbridge_llvm_test(NAME VERSION SOURCES... [LIBS libs]): a GoogleTest program NAME with LLVM VERSION.
function(mlbridge_llvm_test name version)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  find_library(MLBRIDGE_LIBLLVM_${version} NAMES LLVM-${version} LLVM HINTS ${LLVM_${version}_LIBRARY_DIRS}
               NO_DEFAULT_PATH REQUIRED)
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} mlbridge_flags mlbridge_llvm_${version} GTest::gtest
                                        GTest::gtest_main ${MLBRIDGE_LIBLLVM_${version}})
  mlbridge_quick_build(${name})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 60)
endfunction()
