//! Workers on other machines: leases, epochs, hand-over, labels, back-pressure. Time is virtual, requests are real.

mod durable;
mod leases;
mod python;
mod queues;
mod restarts;
mod support;
