/*
 * All C headers of ferry.
 */
#ifndef FERRY_FERRY_ALL_H
#define FERRY_FERRY_ALL_H

#include "ferry.h"
#include "ferry_devices.h"
#include "ferry_event.h"
#include "ferry_external.h"
#include "ferry_file.h"
#include "ferry_graph.h"
#include "ferry_ipc.h"
#include "ferry_memory.h"
#include "ferry_nest.h"
#include "ferry_software.h"

#endif /* FERRY_FERRY_ALL_H */
