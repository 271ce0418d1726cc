// TapeObserver: is told of each op that a tape has run. A profile measures the time from one to the next.
//
//     struct Printer : TapeObserver {
//       void ran(std::string_view op, Pass pass) override { … }
//     };
//     tape.set_observer(&printer);
#pragma once

#include <source_location>
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

// The name of the template's argument, as the compiler writes it into the name of this function.
template <auto Backward>
constexpr std::string_view op_name() {
  std::string_view name = std::source_location::current().function_name();
  constexpr std::string_view kArgument = "Backward = ";
  name.remove_prefix(name.find(kArgument) + kArgument.size());
  name = name.substr(0, name.find("_backward"));
  name.remove_prefix(name.rfind(':') + 1);  // of the namespace; 0 where there is none
  return name.ends_with("_op") ? name.substr(0, name.size() - 3) : name;
}

template <auto Backward>
void tell(TapeObserver* observer, Pass pass) {
  if (observer != nullptr) observer->ran(op_name<Backward>(), pass);
}

}  // namespace detail

}  // namespace heed
