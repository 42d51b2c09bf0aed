#include <intel-ipsec-mb.h>
