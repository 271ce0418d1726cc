#include "heed/train/parameter_slabs.h"

#include "heed/core/error.h"

namespace heed {

ParameterSlabs::ParameterSlabs(const char* function, const std::vector<nn::NamedParameter>& parameters)
    : layout_(function, parameters),
      values_(layout_.allocate()),
      gradients_(layout_.allocate()),
      frozen_(layout_.entries().size(), false) {
  for (const SlabLayout::Entry& entry : layout_.entries()) {
    layout_.parameter(function, entry)
        ->move_to({values_, values_.get() + entry.offset}, {gradients_, gradients_.get() + entry.offset});
  }
}

void ParameterSlabs::check_held(const char* function) {
  for (size_t i = 0; i < frozen_.size(); ++i) {
    const SlabLayout::Entry& entry = layout_.entries()[i];
    const std::shared_ptr<ParameterData> parameter = layout_.parameter(function, entry);
    check(parameter->value == values() + entry.offset && parameter->gradient == gradients() + entry.offset, function,
          "parameter '", entry.name, "' was taken over by an optimiser that was made later; step that one");
    frozen_[i] = parameter->frozen;
  }
}

}  // namespace heed
