//! What agents need of the world: models, their tools, and a model that follows a script.
