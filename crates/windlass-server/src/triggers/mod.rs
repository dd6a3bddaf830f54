//! What starts runs by itself: webhooks, schedules, asking again and again.
