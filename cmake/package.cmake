# The installed package: find_package(heed) gives the target heed::heed, pkg-config knows it as heed. Which headers are
# installed is said in each folder of heed/; those of the kernels (Highway, register tiles, dispatch) stay inside.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(heed_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
install(TARGETS heed EXPORT heed_targets FILE_SET public_headers FILE_SET generated_headers)
install(EXPORT heed_targets NAMESPACE heed:: FILE heed-targets.cmake DESTINATION ${heed_package_dir})
configure_package_config_file(cmake/heed-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/heed-config.cmake
                              INSTALL_DESTINATION ${heed_package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/heed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/heed-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/heed-config-version.cmake
        DESTINATION ${heed_package_dir})

# For builds without CMake: g++ … $(pkg-config --cflags --libs heed).
file(RELATIVE_PATH heed_prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/heed.pc.in ${CMAKE_CURRENT_BINARY_DIR}/heed.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/heed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
