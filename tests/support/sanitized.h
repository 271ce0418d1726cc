// Whether a sanitizer is on: random tests draw fewer cases there, because each takes about twenty times as long.
#pragma once

namespace heed::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace heed::test
