# Installation rules: find_package(MLBridge 0.2 COMPONENTS core base native c compat json protobuf grpc onnx phase-ordering).
# Relocatable: what is found is found relative to the package's own file. See tests/install.
include(CMakePackageConfigHelpers)

set(MLBRIDGE_PROTO_DIR ${CMAKE_INSTALL_DATADIR}/mlbridge/proto)
set(MLBRIDGE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/MLBridge)

get_property(schemes GLOBAL PROPERTY MLBRIDGE_SCHEMES)
list(TRANSFORM schemes PREPEND mlbridge- OUTPUT_VARIABLE scheme_targets)
install(TARGETS mlbridge ${scheme_targets} EXPORT MLBridgeTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
if(TARGET mlbridge-c)
  install(TARGETS mlbridge-c EXPORT MLBridgeTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          COMPONENT runtime NAMELINK_COMPONENT development)
endif()
install(DIRECTORY include/mlbridge DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h")
# Also where no part is built.
install(FILES ${CMAKE_CURRENT_LIST_DIR}/component_folder.h DESTINATION ${MLBRIDGE_COMPONENT_DIR} COMPONENT development)
install(DIRECTORY proto/mlbridge DESTINATION ${MLBRIDGE_PROTO_DIR} COMPONENT development)
install(EXPORT MLBridgeTargets NAMESPACE MLBridge:: FILE MLBridgeTargets.cmake DESTINATION ${MLBRIDGE_CMAKE_DIR}
        COMPONENT development)

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/MLBridgeConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/cmake/MLBridgeConfig.cmake
  INSTALL_DESTINATION ${MLBRIDGE_CMAKE_DIR} PATH_VARS MLBRIDGE_COMPONENT_DIR MLBRIDGE_PROTO_DIR)
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/cmake/MLBridgeConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cmake/MLBridgeConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/cmake/MLBridgeConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/MLBridgeTensorFlow.cmake ${CMAKE_CURRENT_LIST_DIR}/tensorflow_aot.py
              ${CMAKE_CURRENT_LIST_DIR}/MLBridgeCompileModel.cmake ${CMAKE_CURRENT_LIST_DIR}/MLBridgeOptimize.cmake
              ${CMAKE_CURRENT_LIST_DIR}/plugin_entry.h
        DESTINATION ${MLBRIDGE_CMAKE_DIR} COMPONENT development)
# Packages of pkg-config; relocatable too.
file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /)
function(mlbridge_pkg_config name requires libs includes)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/cmake/${name}.pc @ONLY CONTENT "prefix=\${pcfiledir}/@up@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
componentdir=\${prefix}/@MLBRIDGE_COMPONENT_DIR@

Name: @name@
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Requires: @requires@
Libs: -L\${libdir} @libs@
Cflags: @includes@
")
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cmake/${name}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()
mlbridge_pkg_config(mlbridge-base "" "-lmlbridge -pthread -l${CMAKE_DL_LIBS}"
                    "-I\${includedir} -I\${componentdir} -include component_folder.h -pthread")
foreach(name IN LISTS schemes)
  get_property(parts GLOBAL PROPERTY MLBRIDGE_PARTS_OF_${name})
  get_property(names GLOBAL PROPERTY MLBRIDGE_NAMES_IN_${name})
  list(APPEND names base)
  list(TRANSFORM names PREPEND mlbridge-)
  list(JOIN parts " " parts)
  list(JOIN names " " names)
  set(package mlbridge-${name})
  if(name STREQUAL "core")
    set(package mlbridge)
  endif()
  mlbridge_pkg_config(${package} "${names}" "${parts}" "")
endforeach()
mlbridge_pkg_config(mlbridge-c "" -lmlbridge-c "-I\${includedir}")

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
