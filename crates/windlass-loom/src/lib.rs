//! The Loom dialect: Logic Apps definitions compiled to plans
