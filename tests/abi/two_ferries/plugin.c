/* A plug-in with a ferry of its own. */
#include "user.h"

user plugin_user(void);
user plugin_user(void) { return make_user(); }
