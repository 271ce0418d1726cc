// SlabLayout: where each parameter of a list lies in a slab, one contiguous memory for all of them, and how passes over
// slabs are split into work. A slab of values, one of gradients and those of an optimiser's moments have one layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/autograd/parameter.h"
#include "heed/nn/module.h"

namespace heed {

// A parameter begins and ends at multiples of this many floats: two cache lines, so whole vectors on every instruction
// set. Passes compute the padding along; nothing reads it.
inline constexpr int64_t kSlabUnit = 32;

class SlabLayout {
 public:
  struct Entry {
    std::string name;
    Dims shape;
    int64_t offset;  // of the first element, in floats
    int64_t count;   // without padding
    std::weak_ptr<ParameterData> parameter;
  };
  // A part of one entry: the unit of sums and of work. The cuts depend on the entry's count only.
  struct Segment {
    size_t entry;
    int64_t begin;  // within the entry
    int64_t count;  // without padding
  };

  SlabLayout() = default;
  // The parameters in the given order, without those that are frozen. Refuses a parameter or a name that occurs twice,
  // with an error that names `function`.
  SlabLayout(const char* function, const std::vector<nn::NamedParameter>& parameters);

  int64_t size() const { return size_; }  // floats of a slab
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Segment>& segments() const { return segments_; }
  int64_t offset(const Segment& segment) const { return entries_[segment.entry].offset + segment.begin; }

  // A task is a run of segments; tasks are of about equal size.
  int64_t tasks() const { return static_cast<int64_t>(task_begins_.size()) - 1; }
  // body(i) with the index of each segment of a task.
  template <class Body>
  void for_each_segment(int64_t task, Body body) const {
    const size_t end = task_begins_[static_cast<size_t>(task) + 1];
    for (size_t i = task_begins_[static_cast<size_t>(task)]; i < end; ++i) body(i);
  }

  // The parameter of an entry; an error that names `function` if its model is gone.
  std::shared_ptr<ParameterData> parameter(const char* function, const Entry& entry) const;

  // Says that the values of all parameters were changed (ParameterData::version).
  void mark_changed() const;

  // A slab of zeros, in huge pages where there are some.
  std::shared_ptr<float[]> allocate() const;

 private:
  void cut_into_segments();

  std::vector<Entry> entries_;
  std::vector<Segment> segments_;
  std::vector<size_t> task_begins_ = {0};  // the first segment of each task, and the end
  int64_t size_ = 0;
};

}  // namespace heed
