#include "heed/core/arena.h"

#include <algorithm>

namespace heed {

Arena::Arena(void* memory, size_t bytes) : kind_(Kind::given), base_(static_cast<std::byte*>(memory)), size_(bytes) {
  check((memory != nullptr || bytes == 0) && reinterpret_cast<uintptr_t>(memory) % kAlignment == 0, "Arena",
        "memory must not be null and must lie on a boundary of ", kAlignment, " bytes");
}

Arena Arena::dry_run() { return Arena(Kind::dry_run); }

size_t Arena::capacity_bytes() const {
  if (kind_ == Kind::given) return size_;
  size_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.bytes;
  return bytes;
}

void Arena::use_block(size_t index, size_t offset) {
  block_ = index;
  base_ = blocks_[index].memory.get();
  size_ = blocks_[index].bytes;
  offset_ = offset;
}

// The block in use has no room.
void* Arena::take_elsewhere(size_t bytes) {
  if (kind_ == Kind::dry_run) {
    used_ += bytes;
    return nullptr;
  }
  check(kind_ == Kind::growing, "Arena", "the call needs ", bytes, " bytes more, but of the ", size_,
        " bytes of the caller's memory ", size_ - offset_, " are left");
  size_t index = blocks_.empty() ? 0 : block_ + 1;
  if (index < blocks_.size() && blocks_[index].bytes < bytes) blocks_.resize(index);  // the rest is too small: anew
  if (index == blocks_.size()) {
    const size_t size = std::max(bytes, capacity_bytes());
    blocks_.push_back({allocate_aligned<std::byte>(size), size});
  }
  use_block(index, bytes);
  used_ += bytes;
  return base_;
}

// Once everything is given back, several blocks become one that holds the most that was used: the same calls fit it
// from now on.
void Arena::give_back(const Scope::Mark& mark) noexcept {
  most_ = std::max(most_, used_);
  used_ = mark.used;
  if (kind_ != Kind::growing || blocks_.empty()) {
    offset_ = mark.offset;
    return;
  }
  if (used_ == 0 && blocks_.size() > 1) {
    blocks_.clear();
    try {
      blocks_.push_back({allocate_aligned<std::byte>(most_), most_});
    } catch (const std::bad_alloc&) {  // the next call grows again
      base_ = nullptr;
      size_ = offset_ = block_ = 0;
      return;
    }
    return use_block(0, 0);
  }
  use_block(mark.block, mark.offset);
}

}  // namespace heed
