"""What all pages and routes share: context, access, parameters, units, errors."""
