"""What a learner may know. `interface` says what every class of models can do; each class has a folder of its own."""
