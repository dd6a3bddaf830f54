pub fn graph(_: &crate::args::Global, _: &crate::args::Graph) -> Result<crate::failure::Exit, crate::failure::Failure> { Err(crate::failure::Failure::usage("soon")) }
