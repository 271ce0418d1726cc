# The installed package: find_package(heed) gives the target heed::heed. Only public headers are installed; those of
# the kernels (Highway, register tiles, dispatch) stay inside.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

target_sources(
  heed
  PUBLIC
    FILE_SET public_headers
    TYPE HEADERS
    BASE_DIRS ${CMAKE_CURRENT_SOURCE_DIR}
    FILES
      heed/core/bf16.h
      heed/core/error.h
      heed/core/large_memory.h
      heed/core/memory.h
      heed/core/rng.h
      heed/core/shape.h
      heed/core/suggest.h
      heed/core/tensor.h
      heed/core/view.h
      heed/core/workspace.h
      heed/io/array.h
      heed/io/file.h
      heed/io/file_error.h
      heed/io/npy.h
      heed/io/safetensors.h
      heed/parallel/parallel_for.h
      heed/trace/trace.h
      heed/simd/isa.h
      heed/ops/matmul.h
      heed/ops/packed_matrix.h
      heed/ops/panels.h
      heed/ops/rotary.h
      heed/attention/attention.h
      heed/attention/insight.h
      heed/attention/decode.h
      heed/attention/kv_cache.h
      heed/attention/dropout.h
      heed/attention/mask.h
      heed/attention/multihead.h
      heed/attention/reference.h
      heed/attention/reference_row.h
      heed/attention/score_options.h
      heed/explain/check_file.h
      heed/explain/grade.h
      heed/explain/page.h
      heed/explain/steps.h
      heed/explain/written.h)

set(heed_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
install(TARGETS heed EXPORT heed_targets FILE_SET public_headers)
install(EXPORT heed_targets NAMESPACE heed:: FILE heed-targets.cmake DESTINATION ${heed_package_dir})
configure_package_config_file(cmake/heed-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/heed-config.cmake
                              INSTALL_DESTINATION ${heed_package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/heed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/heed-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/heed-config-version.cmake
        DESTINATION ${heed_package_dir})
