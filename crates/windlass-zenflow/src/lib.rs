//! Workflows of agents: from a file to a plan.
