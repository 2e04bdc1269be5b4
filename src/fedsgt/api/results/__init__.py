"""Results of the Python interface: small typed objects that print well and turn into JSON.

Each has the plain facts as fields. `detail` has the object that the command line draws; what is in it may
change with any version.
"""
