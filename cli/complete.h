// What a shell offers for the word under the cursor, from the option table.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace heed::cli {

struct Completions {
  struct Word {
    std::string text;
    std::string about;  // one line; may be empty
  };
  std::vector<Word> words;
  bool files = false;  // names of files fit too: the shell knows them
};

// `words` are those after the program's name, the last one being the word under the cursor, perhaps empty. An option
// with its value is one word (--isa=avx) or, as bash cuts it, three (--isa, =, avx).
Completions complete(const CLI::App& root, const std::vector<std::string>& words);

// What `heed __complete -- words` prints: a line a word, "text<TAB>about"; and a line ":files" where files fit too.
std::string to_lines(const Completions& completions);

}  // namespace heed::cli
