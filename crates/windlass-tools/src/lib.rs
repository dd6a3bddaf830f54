//! What tasks can do in the world, one file a tool
