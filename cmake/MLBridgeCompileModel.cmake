# mlbridge_compile_model(NAME FILE.onnx [INTO TARGET...] [DIM NAME=N...] [SHAPE INPUT=N,N...]
#                        [WEIGHTS external] [ISA LIST])
#
# A static library of the network. `mlbridge aot` (of the Python package; the variable
# MLBRIDGE_COMMAND says which) writes its C++ when the project is built, and again when the model or
# MLBridge changes; the project's compiler compiles it, with the project's flags, target and sysroot.
# Who links it includes NAME.h. ISA: portable, avx2, avx512, neon; unless stated, all of the target.
# With WEIGHTS external, NAME.weights is beside the header. Targets after INTO, which link
# MLBridge::core, get it linked in, and open it as aot:NAME.
cmake_policy(PUSH)
cmake_policy(VERSION 3.25)

# The instruction sets of the machine that is compiled for, as the compiler's macros say.
function(mlbridge_target_isas out)
  include(CheckCXXSourceCompiles)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  set(CMAKE_REQUIRED_QUIET ON)
  foreach(machine x86_64 aarch64)
    check_cxx_source_compiles("#ifndef __${machine}__\n#error\n#endif\nint machine;" MLBRIDGE_TARGET_IS_${machine})
  endforeach()
  set(isas portable)
  if(MLBRIDGE_TARGET_IS_x86_64)
    list(APPEND isas avx2 avx512)
  elseif(MLBRIDGE_TARGET_IS_aarch64)
    list(APPEND isas neon)
  endif()
  set(${out} ${isas} PARENT_SCOPE)
endfunction()

function(mlbridge_compile_model name file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "WEIGHTS;ISA" "DIM;SHAPE;INTO")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mlbridge_compile_model(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT MLBRIDGE_COMMAND)
    find_program(MLBRIDGE_COMMAND mlbridge REQUIRED NO_CMAKE_FIND_ROOT_PATH
                 DOC "MLBridge's command, of its Python package")
  endif()
  get_filename_component(model ${file} ABSOLUTE)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(options)
  foreach(dimension IN LISTS arg_DIM)
    list(APPEND options --dim ${dimension})
  endforeach()
  foreach(shape IN LISTS arg_SHAPE)
    list(APPEND options --shape ${shape})
  endforeach()
  if(arg_ISA)
    list(APPEND options --isa ${arg_ISA})
    string(REPLACE "," ";" isas ${arg_ISA})
  else()
    mlbridge_target_isas(isas)
  endif()
  set(weights ${folder}/${name}_weights.bin)
  if(arg_WEIGHTS)
    list(APPEND options --weights ${arg_WEIGHTS})
    if(arg_WEIGHTS STREQUAL external)
      set(weights ${folder}/${name}.weights)
    endif()
  endif()
  list(TRANSFORM isas REPLACE "(.+)" "${folder}/${name}_\\1.cpp" OUTPUT_VARIABLE evaluations)
  set(sources ${folder}/${name}.cpp ${evaluations})
  add_custom_command(OUTPUT ${sources} ${folder}/${name}.h ${weights}
    COMMAND ${MLBRIDGE_COMMAND} aot ${model} -o ${folder}/ --name ${name} --depfile ${folder}/${name}.d ${options}
    DEPENDS ${model} DEPFILE ${folder}/${name}.d COMMENT "Writing the C++ of the network ${file}" VERBATIM)
  add_library(${name} STATIC ${sources} ${folder}/${name}.h)
  target_compile_features(${name} PRIVATE cxx_std_17)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
  target_include_directories(${name} PUBLIC ${folder})
  target_link_libraries(${name} PUBLIC m)
  # What the results depend on: operations are fused where the kernels say so, and nowhere else. The
  # assembler takes the weights in, and with LTO it would be the linker's, which looks elsewhere.
  set(flags -w -fno-lto -fno-fast-math -ffp-contract=off -fno-math-errno -fno-trapping-math
      -fno-exceptions -fno-rtti -fno-threadsafe-statics)
  set(fast $<$<NOT:$<CONFIG:Debug,MinSizeRel>>:-O3>)
  set_source_files_properties(${folder}/${name}.cpp PROPERTIES COMPILE_OPTIONS "${flags}" OBJECT_DEPENDS ${weights})
  foreach(isa IN LISTS isas)
    set(own)
    if(isa MATCHES avx)
      set(own -mavx2 -mfma -mf16c)
    endif()
    if(isa STREQUAL avx512)
      list(APPEND own -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512)
    endif()
    if(NOT isa STREQUAL portable)
      list(APPEND own ${fast})
    endif()
    set_source_files_properties(${folder}/${name}_${isa}.cpp PROPERTIES COMPILE_OPTIONS "${flags};${own}")
  endforeach()
  foreach(target IN LISTS arg_INTO)
    mlbridge_link_model(${target} ${name})
  endforeach()
endfunction()

# MLBridge finds the models that are linked into a target by mlbridge_linked_model of aot.h.
function(mlbridge_link_model target name)
  get_target_property(before ${target} MLBRIDGE_LINKED_MODELS)
  set_property(TARGET ${target} APPEND PROPERTY MLBRIDGE_LINKED_MODELS ${name}_model)
  target_link_libraries(${target} PRIVATE ${name})
  if(before)
    return()
  endif()
  set(models $<TARGET_PROPERTY:${target},MLBRIDGE_LINKED_MODELS>)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_linked_models.cpp)
  file(GENERATE OUTPUT ${source} CONTENT
"// Written by mlbridge_compile_model.
#include <mlbridge/aot.h>
extern \"C\" {
const mlb_aot_model *$<JOIN:${models},(void)$<SEMICOLON>
const mlb_aot_model *>(void);
[[gnu::visibility(\"hidden\")]] const mlb_aot_model *mlbridge_linked_model(uint64_t index) {
  const mlb_aot_model *(*const models[])(void) = {$<JOIN:${models},$<COMMA> >};
  return index < sizeof models / sizeof *models ? models[index]() : nullptr;
}
}
")
  target_sources(${target} PRIVATE ${source})
  target_compile_features(${target} PRIVATE cxx_std_17)
endfunction()
cmake_policy(POP)
