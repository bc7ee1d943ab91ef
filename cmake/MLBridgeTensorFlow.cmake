# TensorFlow policies compiled ahead of time; docs/tensorflow.md.
#
#   mlbridge_tensorflow_aot(TARGET SAVED_MODEL DIR SIGNATURE KEY NAME NAME [CPU CPU] [TRIPLE TRIPLE])
#
# Compiles a signature of a SavedModel with TensorFlow's ahead-of-time compiler while TARGET is built,
# and links it in: TARGET, which links MLBridge::core, opens it as tfaot:NAME. TensorFlow is needed only for
# that, and is installed into a virtual environment in MLBRIDGE_TENSORFLOW_FOLDER, which several builds may
# share; the default is in the build folder. CPU is one of LLVM's ("x86-64-v3", "haswell", "generic").
set(MLBRIDGE_TENSORFLOW_TOOL "${CMAKE_CURRENT_LIST_DIR}/tensorflow_aot.py" CACHE INTERNAL "")

function(mlbridge_tensorflow_aot target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SAVED_MODEL;SIGNATURE;NAME;CPU;TRIPLE" "")
  foreach(needed SAVED_MODEL SIGNATURE NAME)
    if(NOT arg_${needed})
      message(FATAL_ERROR "mlbridge_tensorflow_aot(${target} ...): ${needed} is missing")
    endif()
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mlbridge_tensorflow_aot(${target} ...): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_NAME MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    message(FATAL_ERROR "mlbridge_tensorflow_aot(${target} ...): NAME '${arg_NAME}' is no identifier")
  endif()
  if(NOT arg_CPU)
    set(arg_CPU generic)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      set(arg_CPU x86-64)
    endif()
  endif()
  if(NOT arg_TRIPLE)
    set(arg_TRIPLE "${CMAKE_SYSTEM_PROCESSOR}-pc-linux")
  endif()
  if(NOT MLBRIDGE_TENSORFLOW_FOLDER)
    set(MLBRIDGE_TENSORFLOW_FOLDER "${CMAKE_BINARY_DIR}/mlbridge-tensorflow")
  endif()
  get_filename_component(model "${arg_SAVED_MODEL}" ABSOLUTE)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)

  set(out "${CMAKE_CURRENT_BINARY_DIR}/tfaot/${arg_NAME}")
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${model}/*")
  set(source "${out}/${arg_NAME}_engine.cpp")
  set(library "${out}/lib${arg_NAME}_tfaot.a")
  add_custom_command(
    OUTPUT "${source}" "${library}"
    COMMAND "${Python3_EXECUTABLE}" "${MLBRIDGE_TENSORFLOW_TOOL}" --saved-model "${model}"
            --signature "${arg_SIGNATURE}" --name "${arg_NAME}" --cpu "${arg_CPU}" --triple "${arg_TRIPLE}"
            --folder "${MLBRIDGE_TENSORFLOW_FOLDER}" --out "${out}" --cxx "${CMAKE_CXX_COMPILER}"
            --ar "${CMAKE_AR}"
    DEPENDS "${MLBRIDGE_TENSORFLOW_TOOL}" ${files}
    COMMENT "Compiling the TensorFlow model ${arg_NAME} (the first time, TensorFlow is installed)"
    VERBATIM)
  set_source_files_properties("${source}" PROPERTIES
    COMPILE_OPTIONS "-isystem;${MLBRIDGE_TENSORFLOW_FOLDER}/include;-isystem;${out}/include" OBJECT_DEPENDS "${library}")
  target_sources(${target} PRIVATE "${source}")
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_link_libraries(${target} PRIVATE "${library}")
endfunction()
