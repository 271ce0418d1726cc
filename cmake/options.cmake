# How everything is compiled: language, optimisation, warnings, sanitizers.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# -O3 for the kernels; the bits of a sum must not depend on what the compiler fuses, so contraction is written out.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")
set(CMAKE_CXX_FLAGS_SANITIZER "-O1 -g1 -fno-omit-frame-pointer")
# The whole program at link time, where gcc sees what a name stands for in every source. Unoptimised finds as much.
set(CMAKE_CXX_FLAGS_ODR "-O0 -flto=auto -Werror=odr -Werror=lto-type-mismatch")
add_compile_options(-ffp-contract=off)

# A project that includes this one by add_subdirectory sees warnings only where it asks for them.
if(PROJECT_IS_TOP_LEVEL)
  add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Werror)
endif()

# What is compiled often and run little is hardly optimised. At -O1 gcc 12 takes the end of a short string for the end of
# its memory (as its bug 105329 has it), by the length of a path: that warning is off there.
set(heed_little_optimised $<$<CONFIG:Release>:-O1>
    $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-array-bounds>
    $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
    $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-stringop-overflow>)

set(HEED_SANITIZE "" CACHE STRING "sanitizers to build with, as -fsanitize takes them; empty for none")
if(HEED_SANITIZE)
  add_compile_options(-fsanitize=${HEED_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HEED_SANITIZE})
endif()
