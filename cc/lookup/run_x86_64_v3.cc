#define BLADE_LOOKUP_RUN RunLookupX8664V3

#include "lookup/run_impl.h"
