// SPDX-License-Identifier: MIT
// A session that does what it is told, one order after the other, instead of the whole job.
#ifndef KDYNO_TURNS_H
#define KDYNO_TURNS_H

#include "job.h"

// Takes orders from the channel until "bye", or until nobody is there to give any.
//   begin INDEX            start that case of the job; answered by begin, then ready, error or skip
//   turn LEAD OPERATIONS   of the case that is ready; answered by turn, before which two marks may
//                          say what of it is to be timed
//   end                    the case is over; answered by done or error
//   case INDEX             the whole case, as in a job without turns
//   bye
// `whole` runs a case of the job from its beginning to its end; `tidy` is called after each case.
// Returns false when the channel is broken. `inside_ns` grows by the time that cases are alive.
bool turns_serve(const struct job *job, bool (*whole)(const struct job *job, size_t index),
                 void (*tidy)(void), uint64_t *inside_ns);

#endif
