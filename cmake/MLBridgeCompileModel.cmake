# mlbridge_compile_model(NAME FILE.onnx [INTO TARGET...] [DIM NAME=N...] [SHAPE INPUT=N,N...]
#                        [WEIGHTS external] [ISA LIST])
#
# A static library of the network, compiled by `mlbridge compile` (of the Python package; the
# variable MLBRIDGE_COMMAND says which). Who links it includes NAME.h. It is compiled again when the
# file changes. With WEIGHTS external, NAME.weights is beside the header. Targets after INTO, which
# link MLBridge::core, get it linked in and registered: they open it as aot:NAME.
function(mlbridge_compile_model name file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "WEIGHTS;ISA" "DIM;SHAPE;INTO")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mlbridge_compile_model(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT MLBRIDGE_COMMAND)
    find_program(MLBRIDGE_COMMAND mlbridge REQUIRED DOC "MLBridge's command, of its Python package")
  endif()
  get_filename_component(model ${file} ABSOLUTE)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  file(MAKE_DIRECTORY ${folder})
  set(options)
  foreach(dimension IN LISTS arg_DIM)
    list(APPEND options --dim ${dimension})
  endforeach()
  foreach(shape IN LISTS arg_SHAPE)
    list(APPEND options --shape ${shape})
  endforeach()
  if(arg_ISA)
    list(APPEND options --isa ${arg_ISA})
  endif()
  set(outputs ${folder}/${name}.o ${folder}/${name}.h)
  if(arg_WEIGHTS)
    list(APPEND options --weights ${arg_WEIGHTS})
    if(arg_WEIGHTS STREQUAL external)
      list(APPEND outputs ${folder}/${name}.weights)
    endif()
  endif()
  add_custom_command(OUTPUT ${outputs}
    COMMAND ${MLBRIDGE_COMMAND} compile ${model} -o ${folder}/${name}.o --header ${folder}/${name}.h
            --name ${name} --cxx ${CMAKE_CXX_COMPILER} ${options}
    DEPENDS ${model} COMMENT "Compiling the network ${file}" VERBATIM)
  add_library(${name} STATIC ${outputs})
  set_source_files_properties(${folder}/${name}.o PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${name} PUBLIC ${folder})
  target_link_libraries(${name} PUBLIC m)
  if(NOT arg_INTO)
    return()
  endif()
  file(CONFIGURE OUTPUT ${folder}/${name}_register.cpp CONTENT
"// Written by mlbridge_compile_model.
#include \"${name}.h\"
#include <mlbridge/compiled.h>

namespace {
const mlbridge::Status registered = mlbridge::registerCompiled(${name}_model());
}
")
  foreach(target IN LISTS arg_INTO)
    target_sources(${target} PRIVATE ${folder}/${name}_register.cpp)
    target_compile_features(${target} PRIVATE cxx_std_17)
    target_link_libraries(${target} PRIVATE ${name})
  endforeach()
endfunction()
