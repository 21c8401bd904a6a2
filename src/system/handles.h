// What sharing by the system's handles needs.
#pragma once

namespace ferry {

// The attributes that the driver asks for to create objects with Win32 handles: the process's default security, and
// handles that children do not inherit. Null on systems without such handles.
void *default_handle_attributes() noexcept;

} // namespace ferry
