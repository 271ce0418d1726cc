// What the program does on signals of the system.
#pragma once

namespace heed::cli {

// Ctrl-C, SIGTERM and SIGHUP end the program as they always do, after files that are half written are removed; where
// the caller had them ignored (nohup) they still are. SIGPIPE ends it quietly: `heed … | head -1`. A file beyond
// `ulimit -f` is an error of writing.
void handle_signals();

}  // namespace heed::cli
