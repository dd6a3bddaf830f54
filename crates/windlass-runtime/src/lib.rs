//! The control loop, its adapters, workers, timers and recovery
