#include "heed/io/looks_like.h"

#include <algorithm>
#include <string_view>

namespace heed::io {
namespace {

// Without zero bytes and other control characters: text in any encoding that extends ASCII.
bool is_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\r' || c == '\t' || c == '\f';
  });
}

bool begins(std::string_view bytes, std::string_view magic) { return bytes.substr(0, magic.size()) == magic; }

// npz and PyTorch's files are zip archives: the name of the first member distinguishes them. It begins at byte 30.
Looks zip_looks(std::string_view bytes) {
  const auto names = [&](std::string_view ending) { return bytes.find(ending, std::min<size_t>(30, bytes.size())); };
  if (names(".npy") != std::string_view::npos) {
    return {"it looks like npz, a zip archive of several arrays", "numpy.save('x.npy', numpy.load('x.npz')['NAME'])",
            "safetensors.numpy.save_file(dict(numpy.load('x.npz')), 'x.safetensors')"};
  }
  if (names("data.pkl") != std::string_view::npos) {
    return {"it looks like a file of PyTorch, which is a pickle and never unpickled here",
            "numpy.save('x.npy', torch.load('x.pt').numpy())",
            "safetensors.torch.save_file(torch.load('x.pt'), 'x.safetensors')"};
  }
  return {"it looks like a zip archive", "unzip it first", "unzip it first"};
}

}  // namespace

Looks looks_like(const InputFile& file) {
  const std::string start = file.read(0, std::min<int64_t>(file.size(), 256));
  const std::string_view bytes = start;
  if (bytes.empty()) return {"it is empty", "copy or save it again", "copy or save it again"};
  if (begins(bytes, "PK\x03\x04") || begins(bytes, "PK\x05\x06")) {
    return zip_looks(bytes);
  }
  if (begins(bytes, "\x93NUMPY")) return {"it looks like npy", "", "give an npy file without ':NAME', as x.npy"};
  if (begins(bytes, "\x80") && bytes.size() > 1 && bytes[1] >= 2 && bytes[1] <= 5) {
    return {"it looks like a Python pickle, which is never unpickled here", "numpy.save('x.npy', array)",
            "safetensors.numpy.save_file({'NAME': array}, 'x.safetensors')"};
  }
  if (begins(bytes, "\x89HDF")) return {"it looks like HDF5", "numpy.save('x.npy', h5py.File('x.h5')['NAME'][:])", ""};
  if (begins(bytes, "\x1f\x8b")) return {"it looks like gzip", "gunzip it first", "gunzip it first"};
  if (begins(bytes, "GGUF")) return {"it looks like GGUF", "", ""};
  if (bytes.size() > 8 && bytes[8] == '{' && !is_text(bytes.substr(0, 8))) {
    return {"it looks like safetensors", "name it x.safetensors, and its tensors as x.safetensors:NAME", ""};
  }
  if (is_text(bytes)) return {"it looks like text", "numpy.save('x.npy', numpy.loadtxt('x.txt'))", ""};
  return {"its first bytes are none that are known", "make one with numpy.save('x.npy', array)",
          "make one with safetensors.numpy.save_file({'NAME': array}, 'x.safetensors')"};
}

}  // namespace heed::io
