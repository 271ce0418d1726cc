#include "heed/io/stored_array.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heed::io {
namespace {

// Where the elements of a file in Fortran order go: counts through the indices, the first one fastest.
class FirstFastest {
 public:
  explicit FirstFastest(const std::vector<int64_t>& shape)
      : shape_(shape), strides_(shape.size()), index_(shape.size(), 0) {
    int64_t step = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      strides_[i] = step;
      step *= shape[i];
    }
  }

  // The row-major position of the next element.
  int64_t next() {
    const int64_t position = position_;
    for (size_t i = 0; i < shape_.size(); ++i) {
      position_ += strides_[i];
      if (++index_[i] < shape_[i]) break;
      position_ -= index_[i] * strides_[i];
      index_[i] = 0;
    }
    return position;
  }

 private:
  const std::vector<int64_t>& shape_;
  std::vector<int64_t> strides_;
  std::vector<int64_t> index_;
  int64_t position_ = 0;
};

// What depends on the type that values are converted to.
std::string why_not(const StoredArray& stored, const std::byte* value, std::span<float> /*to*/) {
  return why_not_f32(*stored.dtype, value);
}
std::string why_not(const StoredArray& stored, const std::byte* value, std::span<int64_t> /*to*/) {
  return why_not_i64(*stored.dtype, value);
}
std::string hint_for(std::span<float> /*to*/) {
  return "numbers are computed in f32; convert or scale the array before saving it";
}
std::string hint_for(std::span<int64_t> /*to*/) { return "save it as i64"; }

// Fills `values`, all elements of the array in row-major order.
template <class T>
void read_values(const InputFile& file, const StoredArray& stored, std::span<T> values) {
  constexpr int64_t kPiece = 1 << 15;  // elements; small enough to stay in cache from file to tensor
  const auto element_bytes = static_cast<int64_t>(stored.dtype->bits / 8);
  const auto count = static_cast<int64_t>(values.size());
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(count, kPiece) * element_bytes));
  std::vector<T> scattered(stored.first_fastest ? static_cast<size_t>(std::min(count, kPiece)) : 0);
  FirstFastest position(stored.shape);
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const auto size = static_cast<size_t>(std::min(kPiece, count - begin));
    file.read(stored.offset + begin * element_bytes, std::span(bytes).first(size * static_cast<size_t>(element_bytes)));
    const auto to =
        stored.first_fastest ? std::span(scattered).first(size) : values.subspan(static_cast<size_t>(begin), size);
    const size_t done = decode(*stored.dtype, bytes.data(), to);
    if (done < size) {
      const std::string element = element_text(stored.shape, begin + static_cast<int64_t>(done), stored.first_fastest);
      throw FileError(file.path(), {.what = why_not(stored, &bytes[done * static_cast<size_t>(element_bytes)], values),
                                    .where = stored.where.empty() ? element : stored.where + ", " + element,
                                    .hint = hint_for(values)});
    }
    if (stored.first_fastest) {
      for (const T value : to) values[static_cast<size_t>(position.next())] = value;
    }
  }
}

int64_t count_nonfinite(std::span<const float> values) {
  return std::count_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
}

}  // namespace

std::optional<int64_t> byte_count(const Dtype& dtype, const std::vector<int64_t>& shape) {
  // Dimensions of size 0 do not excuse the others: their strides would overflow. 64 bits are the widest format.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 64;
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size == 0) continue;
    if (count > kMost / size) return std::nullopt;
    count *= size;
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  const int64_t bits = count * dtype.bits;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

void check_empty(const InputFile& file, const StoredArray& stored) {
  constexpr int64_t kMost = 65536;
  if (std::find(stored.shape.begin(), stored.shape.end(), 0) == stored.shape.end()) return;
  int64_t others = 1;  // byte_count has seen that they do not overflow
  for (const int64_t size : stored.shape) others *= std::max<int64_t>(size, 1);
  if (others <= kMost) return;
  throw FileError(file.path(), {.what = "an array of shape " + to_text(stored.shape) +
                                        " has no elements, and its other sizes make " + std::to_string(others) +
                                        "; at most " + std::to_string(kMost) + " are taken",
                                .where = stored.where,
                                .hint = "is a size of 0 meant? save the array with the sizes that it needs"});
}

Array read_stored(const InputFile& file, const StoredArray& stored) {
  check_empty(file, stored);
  Array result{Tensor(stored.shape), std::string(stored.dtype->name)};
  read_values(file, stored, result.values.values());
  result.nonfinite = count_nonfinite(result.values.values());
  return result;
}

TensorOf<int64_t> read_stored_integers(const InputFile& file, const StoredArray& stored) {
  check_empty(file, stored);
  TensorOf<int64_t> result(stored.shape);
  read_values(file, stored, result.values());
  return result;
}

std::string element_text(const std::vector<int64_t>& shape, int64_t number, bool first_fastest) {
  std::vector<int64_t> index(shape.size());
  for (size_t step = 0; step < index.size(); ++step) {
    const size_t i = first_fastest ? step : index.size() - 1 - step;
    index[i] = number % shape[i];
    number /= shape[i];
  }
  return "element " + to_text(index);
}

void check_writable(const char* function, const Tensor& values) {
  check(values.count() == element_count(values.shape()), function, "the tensor was never given a shape");
  check(values.shape().size() <= kMostDimensions, function, "the tensor has ", values.rank(),
        " dimensions; files hold at most ", kMostDimensions);
}

}  // namespace heed::io
