#include "cli/attend_flags.h"

#include <CLI/CLI.hpp>

#include "cli/option_table.h"
#include "heed/explain/attend_case.h"
#include "heed/explain/examples.h"

namespace heed::cli {
namespace {

std::vector<std::string> names_of_examples() {
  std::vector<std::string> names;
  for (const explain::ExampleName& each : explain::example_names()) names.push_back(each.name);
  return names;
}

void add_input_flags(CLI::App& command, AttendFlags& flags) {
  known_names(command.add_option("--example", flags.example, "a built-in example; --list shows them"),
              names_of_examples)
      ->group("Input");
  command.add_flag("--list", flags.list, "the built-in examples, a line each")->group("Input");
  const auto file = [&](const char* name, std::string& to, const char* about) {
    command.add_option(name, to, about)->type_name("FILE")->group("Input");
  };
  file("--q", flags.q, "queries: .npy, or FILE.safetensors:NAME; with --k and --v");
  file("--k", flags.k, "keys");
  file("--v", flags.v, "values");
  file("--x", flags.x, "tokens [T,C] or [B,T,C] that queries come from; with --weights and --heads");
  file("--context", flags.context, "tokens that keys and values come from (default: those of --x)");
  file("--weights", flags.weights,
       "safetensors named as PyTorch's MultiheadAttention has them: in_proj_weight, in_proj_bias, out_proj.weight, "
       "out_proj.bias, q_proj_weight, k_proj_weight, v_proj_weight; FILE:PREFIX for names that begin with it");
  command.add_option("--heads", flags.heads, "heads; splits the width of [T,H*D] or [B,T,H*D]")->group("Input");
  command.add_option("--kv-heads", flags.kv_heads, "heads of keys and values (default: as many)")->group("Input");
  command.add_option("--layout", flags.layout, "of tensors of rank 4: bthd or bhtd")
      ->check(CLI::IsMember({"bthd", "bhtd"}))
      ->group("Input");
}

void add_mask_flags(CLI::App& command, AttendFlags& flags) {
  const char* group = "Mask and options";
  command.add_flag("--causal", flags.causal, "a query sees keys up to its own position")->group(group);
  command
      .add_option("--align", flags.align,
                  "where queries stand among keys: bottom-right (the last at the last) or top-left")
      ->check(CLI::IsMember({"bottom-right", "top-left"}))
      ->group(group);
  command.add_option("--window", flags.window, "L,R: keys from L before the query to R after it; inf for no limit")
      ->type_name("L,R")
      ->group(group);
  command.add_option("--lengths", flags.lengths, "keys of each item that are there: a,b,…")
      ->delimiter(',')
      ->type_name("A,B")
      ->group(group);
  const auto file = [&](const char* name, std::string& to, const char* about) {
    command.add_option(name, to, about)->type_name("FILE")->group(group);
  };
  file("--keep", flags.keep, "1 where a query may see a key: [Tq,Tk], [B,Tq,Tk] or [B,H,Tq,Tk]");
  file("--block", flags.block, "1 where it may not");
  file("--bias", flags.bias, "added to the scores; -inf hides a key");
  command.add_option("--scale", flags.scale, "of the scores (default: 1/sqrt of the width of a head)")->group(group);
  command.add_option("--softcap", flags.softcap, "cap*tanh(scaled/cap)")->group(group);
  command.add_flag("--alibi", flags.alibi, "a bias that falls with distance, by the slopes of the paper")->group(group);
  file("--sink", flags.sink, "[H]: a logit a head that takes part in the softmax and carries no value");
  command.add_option("--normalizer", flags.normalizer, "softmax or sigmoid (default: softmax)")
      ->check(CLI::IsMember({"softmax", "sigmoid"}))
      ->group(group);
  command.add_flag("--no-out", flags.no_out, "leave W_O out: stop at concat")->group(group);
}

void add_view_flags(CLI::App& command, AttendFlags& flags) {
  const char* group = "What to show";
  command.add_option("--rows", flags.rows, "queries a:b, from a to b-1 (default: all; of long sequences the first 4)")
      ->type_name("A:B")
      ->group(group);
  command.add_option("--head", flags.head, "one head, from 0 on")->group(group);
  known_names(command.add_option("--step", flags.steps, "only these steps: q,k,v,scores,scaled,…"),
              [] { return explain::step_names(); })
      ->delimiter(',')
      ->group(group);
  command.add_option("--digits", flags.digits, "digits behind the point (default: 4)")
      ->check(CLI::Range(0, 9))
      ->group(group);
  command.add_option("--top-k", flags.top_k, "the keys of the N largest weights of each row, with its entropy")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N")
      ->group(group);
  command.add_flag("--grad", flags.grad, "the gradients of the sum of the result, beside finite differences in double")
      ->group(group);
  command.add_option("--d-out", flags.d_out, "the gradient that arrives at the result (default: ones); with --grad")
      ->type_name("FILE")
      ->group(group);
}

void add_output_flags(CLI::App& command, AttendFlags& flags) {
  const char* group = "Output";
  command.add_option("--out", flags.out, "the result of all queries as .npy, in the layout of --q or --x")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--save", flags.save, "the steps shown as safetensors, under their names")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--html", flags.html, "a page with the steps, to open in a browser, instead of text")
      ->type_name("FILE")
      ->group(group);
  command.add_flag("--json", flags.json, "one JSON document, schema heed/attend@1; with --list heed/attend-list@1")
      ->group(group);
}

}  // namespace

void add_attend_flags(CLI::App& command, AttendFlags& flags) {
  add_input_flags(command, flags);
  add_mask_flags(command, flags);
  add_view_flags(command, flags);
  add_output_flags(command, flags);
  add_compute_flags(command, flags.compute, "threads to compute with (default: all cores)");
}

}  // namespace heed::cli
