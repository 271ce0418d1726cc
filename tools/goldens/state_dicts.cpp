// Heed's side of tools/goldens/check_both_ways.
//
//     heed_state_dicts save DIRECTORY    writes NAME.state.safetensors and NAME.run.safetensors (inputs and output) for
//                                        each model, and prints a line for each: NAME MODULE ARGUMENTS
//     heed_state_dicts load DIRECTORY    loads NAME.torch.safetensors, and fails unless it has the bits that were saved
//
// Masks are bool in PyTorch; here they are integers, 1 where a key is hidden.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "heed/autograd/tape.h"
#include "heed/core/rng.h"
#include "heed/io/safetensors.h"
#include "heed/nn/state.h"
#include "heed/nn/transformer.h"

namespace {

using namespace heed;

constexpr int64_t kBatch = 3, kTokens = 11, kSource = 7, kWidth = 24, kHeads = 4, kHidden = 40;

Tensor random_tokens(int64_t tokens, uint64_t seed) {
  Tensor result({kBatch, tokens, kWidth});
  Rng(seed).fill_normal(result.values());
  return result;
}

TensorOf<int64_t> causal_mask(int64_t tokens) {
  TensorOf<int64_t> hidden({tokens, tokens});
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = i + 1; j < tokens; ++j) hidden.view<2>()(i, j) = 1;
  }
  return hidden;
}

TensorOf<int64_t> padding_mask(const std::vector<int64_t>& lengths, int64_t tokens) {
  TensorOf<int64_t> hidden({kBatch, tokens});
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t j = lengths[static_cast<size_t>(b)]; j < tokens; ++j) hidden.view<2>()(b, j) = 1;
  }
  return hidden;
}

// What a model was given and what it made of it.
class Run {
 public:
  Var leaf(const std::string& name, const Tensor& values) {
    entries_.push_back({"in/" + name, values.shape(), keep(floats_, values)});
    return tape_.constant(values);
  }
  void mask(const std::string& name, const TensorOf<int64_t>& hidden) {
    entries_.push_back({"in/" + name, hidden.shape(), keep(integers_, hidden)});
  }
  void save(const Var& y, const std::string& path) {
    entries_.push_back({"out/y", y.shape().to_vector(), y.values()});
    io::write_safetensors(path, entries_);
  }

 private:
  template <class T>
  static std::span<const T> keep(std::vector<TensorOf<T>>& kept, const TensorOf<T>& values) {
    return kept.emplace_back(values).values();
  }

  Tape tape_;
  std::vector<Tensor> floats_;
  std::vector<TensorOf<int64_t>> integers_;
  std::vector<io::SafetensorsEntry> entries_;
};

// A model by a name, with PyTorch's class and arguments.
struct Description {
  std::string name, module, arguments;
};

template <class Model, class Call>
void save_model(const std::string& directory, const Description& d, Model& model, Call call) {
  nn::save(model, directory + "/" + d.name + ".state.safetensors");
  Run run;
  run.save(call(run), directory + "/" + d.name + ".run.safetensors");
  std::printf("%s %s %s\n", d.name.c_str(), d.module.c_str(), d.arguments.c_str());
}

template <class Model>
void load_model(const std::string& directory, const Description& d, Model& model) {
  Model loaded = model;
  nn::initialise(loaded, Rng(99));
  nn::load(loaded, directory + "/" + d.name + ".torch.safetensors");
  const std::vector<nn::NamedParameter> expected = nn::parameters(model), got = nn::parameters(loaded);
  for (size_t i = 0; i < got.size(); ++i) {
    check(std::ranges::equal(got[i].parameter->values(), expected[i].parameter->values()), "heed_state_dicts", d.name,
          ": '", got[i].name, "' came back with other bits");
  }
  std::printf("%s: loaded with the same bits\n", d.name.c_str());
}

// visit(description, model, call) for each model.
template <class Visit>
void for_each_model(Visit visit) {
  const std::string sizes = R"("embed_dim":24,"num_heads":4)";
  const std::string layer = R"("d_model":24,"nhead":4,"dim_feedforward":40)";
  const nn::TransformerOptions options{
      .width = kWidth, .heads = kHeads, .feed_forward = kHidden, .layers = 2, .decoder_layers = 1, .dropout = 0.0F};

  nn::MultiheadAttention attention({.width = kWidth, .heads = kHeads});
  nn::initialise(attention, Rng(1));
  visit(Description{"attention", "MultiheadAttention", "{" + sizes + "}"}, attention, [&](Run& run) {
    run.mask("attn_mask", causal_mask(kTokens));
    return attention(run.leaf("x", random_tokens(kTokens, 2)), {.mask = Mask::causal()});
  });

  nn::MultiheadAttention appended({.width = kWidth, .heads = kHeads, .bias_kv = true, .zero_kv = true});
  nn::initialise(appended, Rng(3));
  visit(
      Description{"appended_keys", "MultiheadAttention", "{" + sizes + R"(,"add_bias_kv":true,"add_zero_attn":true})"},
      appended, [&](Run& run) { return appended(run.leaf("x", random_tokens(kTokens, 4))); });

  nn::TransformerOptions encoder_options = options;
  encoder_options.norm_first = encoder_options.final_norm = true;
  encoder_options.activation = Activation::gelu;
  nn::TransformerEncoder encoder(encoder_options);
  nn::initialise(encoder, Rng(5));
  visit(Description{"encoder", "TransformerEncoder",
                    R"({"layer":{)" + layer + R"(,"norm_first":true,"activation":"gelu"},"num_layers":2,"norm":true})"},
        encoder, [&](Run& run) {
          const std::vector<int64_t> lengths{11, 4, 1};
          run.mask("src_key_padding_mask", padding_mask(lengths, kTokens));
          return encoder(run.leaf("x", random_tokens(kTokens, 6)), Mask::lengths(lengths));
        });

  nn::Transformer transformer(options);
  nn::initialise(transformer, Rng(7));
  visit(Description{"transformer", "Transformer", "{" + layer + R"(,"num_encoder_layers":2,"num_decoder_layers":1})"},
        transformer, [&](Run& run) {
          run.mask("tgt_mask", causal_mask(kTokens));
          const Var source = run.leaf("src", random_tokens(kSource, 8));
          return transformer(source, run.leaf("tgt", random_tokens(kTokens, 9)), {.target = Mask::causal()});
        });
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string command = argc == 3 ? argv[1] : "";
  check(command == "save" || command == "load", "heed_state_dicts", "expected: heed_state_dicts save|load DIRECTORY");
  const std::string directory = argv[2];
  for_each_model([&](const Description& description, auto& model, auto call) {
    if (command == "save") {
      save_model(directory, description, model, call);
    } else {
      load_model(directory, description, model);
    }
  });
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "heed_state_dicts: error: %s\n", error.what());
  return 1;
}
