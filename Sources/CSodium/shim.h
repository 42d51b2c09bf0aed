#include <sodium.h>
#include <sys/random.h>
#include <sys/resource.h>
