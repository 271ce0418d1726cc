// What the system knows of this process: its memory, and how long its threads waited for a core.
#pragma once

namespace heed::bench {

// Seconds that the living threads of this process have been ready to run while others had the cores; 0 where the system
// does not tell.
double waiting_seconds();

// Megabytes (10^6 bytes) by which `call` raised the peak resident size over the resident size before it. Where the
// system does not let the peak be reset, an earlier and higher peak counts too: never too little.
template <class Call>
double resident_growth_mb(Call&& call);

// The pieces of it: forget the peak so far, the size now, the peak since.
void reset_peak_resident();
double resident_mb();
double peak_resident_mb();

template <class Call>
double resident_growth_mb(Call&& call) {
  reset_peak_resident();
  const double before = resident_mb();
  call();
  return peak_resident_mb() - before;
}

}  // namespace heed::bench
