package ferry

// #include "calls.h"
import "C"

// Report returns what Open found.
func (f *Instance) Report() (Report, error) {
	c := C.ferry_report{struct_size: C.sizeof_ferry_report}
	err := f.call(func(info details) C.int32_t { return C.ferry_instance_get_report(f.c, &c, info) })
	return newReport(&c), err
}

// MissingEntryPoints returns the names of optional entry points that the driver lacks.
func (f *Instance) MissingEntryPoints() (names []string, err error) {
	err = f.call(func(info details) C.int32_t {
		for i := C.uint32_t(0); ; i++ {
			name := C.ferry_instance_get_missing_entry_point(f.c, i)
			if name == nil {
				return 0
			}
			names = append(names, C.GoString(name))
		}
	})
	return names, err
}

// Device returns the facts of a device.
func (f *Instance) Device(device int) (DeviceInfo, error) {
	c := C.ferry_device_info{struct_size: C.sizeof_ferry_device_info}
	err := f.call(func(info details) C.int32_t { return C.ferry_device_get_info(f.c, number(device), &c, info) })
	return newDeviceInfo(&c), err
}

// FindDevice returns the number of the device that another API knows by this UUID.
func (f *Instance) FindDevice(uuid [16]byte) (int, error) {
	device := C.int32_t(-1)
	err := f.call(func(info details) C.int32_t {
		return C.ferry_device_find(f.c, (*C.uint8_t)(&uuid[0]), nil, &device, info)
	})
	return int(device), err
}

// FindDeviceByLUID returns the number of the device that another API knows by this LUID.
func (f *Instance) FindDeviceByLUID(luid [8]byte) (int, error) {
	device := C.int32_t(-1)
	err := f.call(func(info details) C.int32_t {
		return C.ferry_device_find(f.c, nil, (*C.uint8_t)(&luid[0]), &device, info)
	})
	return int(device), err
}

// Synchronize waits until all work in ferry's context for the device has ended. It occupies a thread.
func (f *Instance) Synchronize(device int) error {
	return f.call(func(info details) C.int32_t { return C.ferry_context_synchronize(f.c, number(device), nil, info) })
}

// AddressInfo reports the memory at the beginning of a place that is not an array.
func (f *Instance) AddressInfo(memory Memory) (AddressInfo, error) {
	p := memory.end()
	leave, err := f.use(p.owner)
	if err != nil {
		return AddressInfo{}, err
	}
	defer leave()
	address, err := p.begin()
	if err != nil {
		return AddressInfo{}, err
	}
	c := C.ferry_address_info{struct_size: C.sizeof_ferry_address_info}
	err = f.call(func(info details) C.int32_t { return C.ferry_address_get_info(f.c, address, &c, info) })
	return newAddressInfo(&c), err
}

// DeferredInfo reports what FreeOn and DestroyOn have not freed yet on a device; for DeviceUnknown, on all devices and
// in host memory.
func (f *Instance) DeferredInfo(device int) (DeferredInfo, error) {
	c := C.ferry_deferred_info{struct_size: C.sizeof_ferry_deferred_info}
	err := f.call(func(info details) C.int32_t { return C.ferry_deferred_get_info(f.c, number(device), &c, info) })
	return newDeferredInfo(&c), err
}

// TrimDeferred frees what has completed on its stream, until at most keep bytes are left. It waits for running work.
func (f *Instance) TrimDeferred(device int, keep uint64) error {
	return f.call(func(info details) C.int32_t {
		return C.ferry_deferred_trim(f.c, number(device), C.uint64_t(keep), info)
	})
}

// StagingInfo returns the resources for staged copies.
func (f *Instance) StagingInfo() (StagingInfo, error) {
	c := C.ferry_staging_info{struct_size: C.sizeof_ferry_staging_info}
	err := f.call(func(info details) C.int32_t { return C.ferry_staging_get_info(f.c, &c, info) })
	return newStagingInfo(&c), err
}

// Usage returns the memory and the threads that the instance uses for itself.
func (f *Instance) Usage() (Usage, error) {
	c := C.ferry_usage{struct_size: C.sizeof_ferry_usage}
	err := f.call(func(info details) C.int32_t { return C.ferry_instance_get_usage(f.c, &c, info) })
	return newUsage(&c), err
}

// PrepareStaging creates what the first staged copy of a device would otherwise wait for.
func (f *Instance) PrepareStaging(device int) error {
	return f.call(func(info details) C.int32_t { return C.ferry_staging_prepare(f.c, number(device), info) })
}

// TrimStaging releases the staging buffers. It waits for running work.
func (f *Instance) TrimStaging() error {
	return f.call(func(info details) C.int32_t { return C.ferry_staging_trim(f.c, info) })
}

// Calibrate measures a device, for two seconds at most if it is idle. The package then plans with the result.
func (f *Instance) Calibrate(device int) error {
	return f.call(func(info details) C.int32_t { return C.ferry_device_calibrate(f.c, number(device), info) })
}

// Profile returns the profile of a device as text, for LoadProfile at the program's next start.
func (f *Instance) Profile(device int) (string, error) {
	var profile string
	err := f.call(func(info details) C.int32_t {
		var needed C.uint64_t
		if status := C.ferry_profile_save(f.c, number(device), nil, 0, &needed, info); status != 0 {
			return status
		}
		buffer := make([]C.char, needed+1024) // another profile may be loaded meanwhile
		status := C.ferry_profile_save(f.c, number(device), &buffer[0], C.uint64_t(len(buffer)), nil, info)
		if status == 0 {
			profile = C.GoString(&buffer[0])
		}
		return status
	})
	return profile, err
}

// LoadProfile makes the package plan with a profile on every device that it fits.
func (f *Instance) LoadProfile(profile string) error {
	buffer := make([]C.char, len(profile)+1)
	for i := range []byte(profile) {
		buffer[i] = C.char(profile[i])
	}
	return f.call(func(info details) C.int32_t {
		return C.ferry_profile_load(f.c, &buffer[0], C.uint64_t(len(profile)), info)
	})
}

// PeerInfo returns the facts about access by a device to the memory of a peer.
func (f *Instance) PeerInfo(device, peer int) (PeerInfo, error) {
	c := C.ferry_peer_info{struct_size: C.sizeof_ferry_peer_info}
	err := f.call(func(info details) C.int32_t {
		return C.ferry_peer_get_info(f.c, number(device), number(peer), &c, info)
	})
	return newPeerInfo(&c), err
}

// ProbePeer tests whether bytes arrive when the device accesses the memory of the peer.
func (f *Instance) ProbePeer(device, peer int) error {
	return f.call(func(info details) C.int32_t { return C.ferry_peer_probe(f.c, number(device), number(peer), info) })
}

// EnablePeer gives the device access to the memory of the peer.
func (f *Instance) EnablePeer(device, peer int) error {
	return f.call(func(info details) C.int32_t { return C.ferry_peer_enable(f.c, number(device), number(peer), info) })
}

// DisablePeer takes the access back. It waits for the work of both devices.
func (f *Instance) DisablePeer(device, peer int) error {
	return f.call(func(info details) C.int32_t { return C.ferry_peer_disable(f.c, number(device), number(peer), info) })
}

// CalibratePeer measures copies from the device to the peer, for two seconds at most if both are idle.
func (f *Instance) CalibratePeer(device, peer int) error {
	return f.call(func(info details) C.int32_t {
		return C.ferry_peer_calibrate(f.c, number(device), number(peer), info)
	})
}

// SetHelpers lets copies with CopyMultilink between host memory and the device take the host links of other devices, on
// at most maxSMs multiprocessors of each; 0 means 16. No helpers: none, as at first.
func (f *Instance) SetHelpers(device int, helpers []int, maxSMs uint32) error {
	numbers := make([]C.int32_t, len(helpers))
	for i, helper := range helpers {
		numbers[i] = number(helper)
	}
	return f.call(func(info details) C.int32_t {
		return C.go_multilink_set(f.c, number(device), first(numbers), C.uint32_t(number(len(numbers))), C.uint32_t(maxSMs),
			info)
	})
}
