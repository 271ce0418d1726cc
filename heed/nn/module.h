// Modules: plain structs that list their parts once, and what follows from the list.
//
//     struct Classifier {
//       nn::Embedding words{20000, 128};
//       nn::Linear classes{128, 2};
//       void parts(auto&& visit) { visit("words", words), visit("classes", classes); }
//     };
//
// A part is a Parameter, a module (anything that has parts), or a std::vector or std::optional of these. Parameters are
// named by the path to them, as in PyTorch: "encoder.layers.0.self_attn.in_proj_weight". Absent parameters (a linear map
// without a bias) are passed over. A parameter that is reached twice is one parameter, under its first name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "heed/autograd/parameter.h"
#include "heed/nn/initialiser.h"

namespace heed::nn {

namespace detail {

template <class Part>
inline constexpr bool is_list = false;
template <class Part>
inline constexpr bool is_list<std::vector<Part>> = true;
template <class Part>
inline constexpr bool is_list<std::optional<Part>> = true;

inline std::string joined(const std::string& prefix, std::string_view name) {
  std::string path = prefix;
  if (!path.empty() && !name.empty()) path += '.';
  return path += name;
}

}  // namespace detail

// Calls visit(path, part) for every parameter and module below `part`, depth first: the parts of a module before the
// module itself.
template <class Part, class Visit>
void visit_parts(Part& part, const std::string& path, Visit&& visit) {
  if constexpr (std::is_same_v<Part, Parameter>) {
    if (part.given()) visit(path, part);
  } else if constexpr (detail::is_list<Part>) {
    if constexpr (requires { part.size(); }) {
      for (size_t i = 0; i < part.size(); ++i) visit_parts(part[i], detail::joined(path, std::to_string(i)), visit);
    } else if (part.has_value()) {
      visit_parts(*part, path, visit);
    }
  } else {
    part.parts([&](std::string_view name, auto& inner) { visit_parts(inner, detail::joined(path, name), visit); });
    visit(path, part);
  }
}

struct NamedParameter {
  std::string name;
  Parameter* parameter = nullptr;
};

// Every parameter of a model, once, in the order of the parts. Valid while the model stays where it is.
template <class Model>
std::vector<NamedParameter> parameters(Model& model) {
  std::vector<NamedParameter> result;
  visit_parts(model, "", [&](const std::string& path, auto& part) {
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(part)>, Parameter>) {
      for (const NamedParameter& known : result) {
        if (known.parameter->shared() == part.shared()) return;
      }
      result.push_back({path, &part});
    }
  });
  return result;
}

// Sets every parameter to its initial distribution: each module's own, a module after its parts.
template <class Model>
void initialise(Model& model, const Rng& rng) {
  Initialiser draw(rng);
  visit_parts(model, "", [&](const std::string&, auto& part) {
    if constexpr (requires { part.initialise(draw); }) part.initialise(draw);
  });
}

int64_t count(const std::vector<NamedParameter>& parameters);
template <class Model>
int64_t count_parameters(Model& model) {
  return count(parameters(model));
}

// Frozen parameters get no gradient; optimisers leave them as they are.
template <class Model>
void freeze(Model& model, bool frozen = true) {
  for (const NamedParameter& each : parameters(model)) each.parameter->set_frozen(frozen);
}

template <class Model>
void zero_gradients(Model& model) {
  for (const NamedParameter& each : parameters(model)) each.parameter->zero_gradient();
}

}  // namespace heed::nn
