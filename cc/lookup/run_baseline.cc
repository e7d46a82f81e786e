#define BLADE_LOOKUP_RUN RunLookupBaseline

#include "lookup/run_impl.h"
