# What `cmake --install` puts where: headers, libraries, the command, forebay.pc and the CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(FBY_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/forebay)
set(FBY_PC_LIBS_PRIVATE "-lyaml -lzstd -llz4 -lbrotlidec -ldeflate -lsnappy -lblosc -llzf -laec -lpthread -lm")
if(URING_FOUND)
  string(PREPEND FBY_PC_LIBS_PRIVATE "-luring ")
endif()
if(FBY_SANITIZE) # a program that loads a sanitized library has to bring the runtime
  string(PREPEND FBY_PC_LIBS_PRIVATE "-fsanitize=${FBY_SANITIZE} ")
endif()

install(DIRECTORY include/forebay DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
configure_file(cmake/forebay.pc.in forebay.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/forebay.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(FBY_BUILD_SHARED)
  install(TARGETS forebay EXPORT forebayTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT forebayTargets NAMESPACE forebay:: DESTINATION ${FBY_CMAKE_DIR})
  configure_package_config_file(cmake/forebayConfig.cmake.in forebayConfig.cmake INSTALL_DESTINATION ${FBY_CMAKE_DIR})
  write_basic_package_version_file(forebayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/forebayConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/forebayConfigVersion.cmake
          DESTINATION ${FBY_CMAKE_DIR})
endif()
if(FBY_BUILD_STATIC) # found through `pkg-config --static`
  install(TARGETS forebay_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET forebay-hdf5)
  install(TARGETS forebay-hdf5 RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/forebay)
endif()
if(FBY_BUILD_CLI)
  set_target_properties(forebay_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS forebay_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
