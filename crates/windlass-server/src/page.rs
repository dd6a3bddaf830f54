//! What people look at. Built from `ui/`, kept inside the program.
