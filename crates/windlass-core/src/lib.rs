//! The pure reducer: plan, state, ticks, commands
