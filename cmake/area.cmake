# heed_area(SOURCES file… PUBLIC_HEADERS file…) adds what lies in a folder of heed/ to the library; a folder's
# CMakeLists.txt calls it. Kernels are found by their names (*_kernel.cpp) and compiled once for each instruction set.
# PUBLIC_HEADERS are installed; headers that are not listed stay inside.
include(${CMAKE_CURRENT_LIST_DIR}/kernels.cmake)

function(heed_area)
  cmake_parse_arguments(PARSE_ARGV 0 area "" "" "SOURCES;PUBLIC_HEADERS")
  if(area_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "heed_area: ${area_UNPARSED_ARGUMENTS} stands under neither SOURCES nor PUBLIC_HEADERS")
  endif()
  target_sources(heed PRIVATE ${area_SOURCES})
  target_sources(heed PUBLIC FILE_SET public_headers FILES ${area_PUBLIC_HEADERS})
  file(GLOB kernels RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS *_kernel.cpp)
  heed_kernels(heed ${kernels})
endfunction()
