// TapeObserver: is told of each op that a tape has run. A profile measures the time from one to the next.
//
//     struct Printer : TapeObserver {
//       void ran(std::string_view op, Pass pass) override { … }
//     };
//     tape.set_observer(&printer);
#pragma once

#include <string_view>

namespace heed {

enum class Pass { forward, backward };

class TapeObserver {
 public:
  virtual ~TapeObserver() = default;
  // Directly after the op: "linear" for the op whose backward function is linear_backward or linear_op_backward.
  virtual void ran(std::string_view op, Pass pass) = 0;
};

namespace detail {

constexpr std::string_view without_suffix(std::string_view name, std::string_view suffix) {
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

// The name of the template's argument, as the compiler writes it into the name of this function:
//     g++: […Backward = heed::{anonymous}::linear_backward; …]
//     clang: [Backward = &heed::(anonymous namespace)::linear_backward]
template <auto Backward>
constexpr std::string_view op_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  constexpr std::string_view kArgument = "Backward = ";
  name.remove_prefix(name.find(kArgument) + kArgument.size());
  name = name.substr(0, name.find_first_of(";]<"));
  name.remove_prefix(name.find_last_of(":&") + 1);  // namespaces; 0 where there are none
  return without_suffix(without_suffix(name, "_backward"), "_op");
}

template <auto Backward>
void tell(TapeObserver* observer, Pass pass) {
  if (observer != nullptr) observer->ran(op_name<Backward>(), pass);
}

}  // namespace detail

}  // namespace heed
