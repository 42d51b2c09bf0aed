#include <stdlib.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-login.h>
